// A franz-go consumer and producer with the line protocol of ../README.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Role            string  `json:"role"`
	Bootstrap       string  `json:"bootstrap"`
	Topic           string  `json:"topic"`
	Group           *string `json:"group"`
	Reset           string  `json:"reset"`
	Isolation       string  `json:"isolation"`
	AutoCommitMs    *int    `json:"autoCommitMs"`
	RecordsMax      *int    `json:"recordsMax"`
	Acks            string  `json:"acks"`
	IsIdempotent    bool    `json:"isIdempotent"`
	TransactionalID *string `json:"transactionalId"`
	Compression     string  `json:"compression"`
	LingerMs        int     `json:"lingerMs"`
	ClientID        string  `json:"clientId"`
}

type command struct {
	Op        string  `json:"op"`
	ID        int64   `json:"id"`
	Topic     *string `json:"topic"`
	Partition *int32  `json:"partition"`
	Key       *string `json:"key"`
	Value     *string `json:"value"`
}

type fields map[string]any

var printLock sync.Mutex

func emit(event string, line fields) {
	if line == nil {
		line = fields{}
	}
	line["event"] = event
	text, err := json.Marshal(line)
	if err != nil {
		fatal(err)
	}
	printLock.Lock()
	defer printLock.Unlock()
	fmt.Println(string(text))
}

func fail(id int64, err error) {
	emit("reply", fields{"id": id, "error": err.Error(), "code": fmt.Sprintf("%T", errors.Unwrap(err))})
}

func fatal(err error) {
	text, _ := json.Marshal(fields{"event": "error", "message": err.Error(), "isFatal": true})
	fmt.Println(string(text))
	os.Exit(1)
}

// readCommands closes the channel when stdin has ended.
func readCommands() <-chan command {
	commands := make(chan command, 1024)
	go func() {
		defer close(commands)
		scanner := bufio.NewScanner(os.Stdin)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			var next command
			if err := json.Unmarshal(scanner.Bytes(), &next); err != nil {
				fatal(err)
			}
			commands <- next
		}
	}()
	return commands
}

func optional(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}

func names(partitions map[string][]int32) []string {
	list := []string{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			list = append(list, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	return list
}

func common(o options) []kgo.Opt {
	clientID := o.ClientID
	if clientID == "" {
		clientID = "franz-go"
	}
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(o.Bootstrap, ",")...),
		kgo.ClientID(clientID),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
}

func consumerOptions(o options) []kgo.Opt {
	list := append(common(o), kgo.ConsumeTopics(o.Topic), kgo.FetchMaxWait(200*time.Millisecond))
	reset := kgo.NewOffset().AtStart()
	if o.Reset == "latest" {
		reset = kgo.NewOffset().AtEnd()
	}
	if o.Reset == "none" {
		reset = kgo.NoResetOffset()
	}
	list = append(list, kgo.ConsumeResetOffset(reset))
	if o.Isolation == "read_committed" {
		list = append(list, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if o.Group == nil {
		return list
	}
	list = append(list, kgo.ConsumerGroup(*o.Group),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			emit("assigned", fields{"partitions": names(got)})
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			emit("revoked", fields{"partitions": names(lost)})
		}))
	if o.AutoCommitMs == nil {
		return append(list, kgo.DisableAutoCommit())
	}
	return append(list, kgo.AutoCommitInterval(time.Duration(*o.AutoCommitMs)*time.Millisecond))
}

func printRecord(record *kgo.Record) {
	emit("record", fields{
		"topic":     record.Topic,
		"partition": record.Partition,
		"offset":    record.Offset,
		"timestamp": record.Timestamp.UnixMilli(),
		"key":       optional(record.Key),
		"value":     optional(record.Value),
	})
}

func commit(client *kgo.Client, next command, positions map[string]*kgo.Record) {
	records := make([]*kgo.Record, 0, len(positions))
	offsets := map[string]int64{}
	for name, record := range positions {
		records = append(records, record)
		offsets[name] = record.Offset + 1
	}
	if err := client.CommitRecords(context.Background(), records...); err != nil {
		fail(next.ID, err)
		return
	}
	emit("reply", fields{"id": next.ID, "offsets": offsets})
}

func consume(o options) error {
	client, err := kgo.NewClient(consumerOptions(o)...)
	if err != nil {
		return err
	}
	defer client.Close()
	commands := readCommands()
	positions := map[string]*kgo.Record{}
	count := 0
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		fetches := client.PollFetches(ctx)
		cancel()
		fetches.EachError(func(topic string, partition int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				emit("error", fields{"message": fmt.Sprintf("%s-%d: %v", topic, partition, err)})
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			positions[fmt.Sprintf("%s-%d", record.Topic, record.Partition)] = record
			printRecord(record)
			count++
		})
		if o.RecordsMax != nil && count >= *o.RecordsMax {
			return nil
		}
		for isDrained := false; !isDrained; {
			select {
			case next, isOpen := <-commands:
				if !isOpen {
					return nil
				}
				commit(client, next, positions)
			default:
				isDrained = true
			}
		}
	}
}

func producerOptions(o options) ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{
		"": kgo.NoCompression(), "none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, isKnown := codecs[o.Compression]
	if !isKnown {
		return nil, fmt.Errorf("unknown compression %q", o.Compression)
	}
	list := append(common(o), kgo.DefaultProduceTopic(o.Topic), kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(time.Duration(o.LingerMs)*time.Millisecond),
		kgo.RecordPartitioner(partitioner()))
	switch o.Acks {
	case "1":
		list = append(list, kgo.RequiredAcks(kgo.LeaderAck()))
	case "0":
		list = append(list, kgo.RequiredAcks(kgo.NoAck()))
	}
	if o.TransactionalID != nil {
		return append(list, kgo.TransactionalID(*o.TransactionalID)), nil
	}
	if !o.IsIdempotent {
		list = append(list, kgo.DisableIdempotentWrite())
	}
	return list, nil
}

// partitioner takes the partition a command names (noPartition: none), else hashes as Java does.
const noPartition = int32(-1)

func partitioner() kgo.Partitioner {
	byKey := kgo.StickyKeyPartitioner(nil)
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		hash := byKey.ForTopic(topic)
		return func(record *kgo.Record, count int) int {
			if record.Partition != noPartition {
				return int(record.Partition)
			}
			return hash.Partition(record, count)
		}
	})
}

func send(client *kgo.Client, next command) {
	record := &kgo.Record{Partition: noPartition}
	if next.Topic != nil {
		record.Topic = *next.Topic
	}
	if next.Partition != nil {
		record.Partition = *next.Partition
	}
	if next.Key != nil {
		record.Key = []byte(*next.Key)
	}
	if next.Value != nil {
		record.Value = []byte(*next.Value)
	}
	client.Produce(context.Background(), record, func(sent *kgo.Record, err error) {
		if err != nil {
			fail(next.ID, err)
			return
		}
		emit("reply", fields{
			"id": next.ID, "topic": sent.Topic, "partition": sent.Partition, "offset": sent.Offset,
		})
	})
}

func run(client *kgo.Client, next command) error {
	ctx := context.Background()
	switch next.Op {
	case "begin":
		return client.BeginTransaction()
	case "commit":
		if err := client.Flush(ctx); err != nil {
			return err
		}
		return client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		if err := client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
		return client.EndTransaction(ctx, kgo.TryAbort)
	case "flush":
		return client.Flush(ctx)
	}
	return fmt.Errorf("unknown op %q", next.Op)
}

func produce(o options) error {
	list, err := producerOptions(o)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(list...)
	if err != nil {
		return err
	}
	defer client.Close()
	emit("ready", nil)
	for next := range readCommands() {
		if next.Op == "send" {
			send(client, next)
			continue
		}
		if err := run(client, next); err != nil {
			fail(next.ID, err)
			continue
		}
		emit("reply", fields{"id": next.ID})
	}
	return client.Flush(context.Background())
}

func main() {
	var o options
	if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
		fatal(err)
	}
	action := produce
	if o.Role == "consume" {
		action = consume
	}
	if err := action(o); err != nil {
		fatal(err)
	}
	emit("closed", nil)
}
