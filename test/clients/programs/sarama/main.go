// A sarama consumer and producer with the line protocol of ../README.md.
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

	"github.com/IBM/sarama"
)

type options struct {
	Role            string  `json:"role"`
	Bootstrap       string  `json:"bootstrap"`
	Topic           string  `json:"topic"`
	Group           string  `json:"group"`
	Isolation       string  `json:"isolation"`
	AutoCommitMs    *int    `json:"autoCommitMs"`
	IsIdempotent    bool    `json:"isIdempotent"`
	TransactionalID *string `json:"transactionalId"`
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
		panic(err)
	}
	printLock.Lock()
	defer printLock.Unlock()
	fmt.Println(string(text))
}

func reply(id int64, err error) {
	if err != nil {
		emit("reply", fields{"id": id, "error": err.Error(), "code": fmt.Sprintf("%T", err)})
		return
	}
	emit("reply", fields{"id": id})
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
				emit("error", fields{"message": err.Error(), "isFatal": true})
				return
			}
			commands <- next
		}
	}()
	return commands
}

func settings(o options) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Version = sarama.V3_9_0_0
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Offsets.AutoCommit.Enable = o.AutoCommitMs != nil
	if o.AutoCommitMs != nil {
		interval := time.Duration(*o.AutoCommitMs) * time.Millisecond
		config.Consumer.Offsets.AutoCommit.Interval = interval
	}
	if o.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	if o.IsIdempotent || o.TransactionalID != nil {
		config.Producer.Idempotent = true
		config.Net.MaxOpenRequests = 1
	}
	if o.TransactionalID != nil {
		config.Producer.Transaction.ID = *o.TransactionalID
	}
	return config
}

func optional(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}

type handler struct {
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	next    map[string]int64
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.lock.Lock()
	defer h.lock.Unlock()
	h.session = session
	h.next = map[string]int64{}
	list := []string{}
	for topic, numbers := range session.Claims() {
		for _, number := range numbers {
			list = append(list, fmt.Sprintf("%s-%d", topic, number))
		}
	}
	emit("assigned", fields{"partitions": list})
	return nil
}

func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for message := range c.Messages() {
		h.lock.Lock()
		h.next[fmt.Sprintf("%s-%d", message.Topic, message.Partition)] = message.Offset + 1
		s.MarkMessage(message, "")
		h.lock.Unlock()
		emit("record", fields{
			"topic":     message.Topic,
			"partition": message.Partition,
			"offset":    message.Offset,
			"timestamp": message.Timestamp.UnixMilli(),
			"key":       optional(message.Key),
			"value":     optional(message.Value),
		})
	}
	return nil
}

// commit asks what is committed afterwards: sarama's own call returns nothing.
func (h *handler) commit(o options) error {
	if h.session == nil {
		return errors.New("not in the group")
	}
	h.session.Commit()
	admin, err := sarama.NewClusterAdmin(strings.Split(o.Bootstrap, ","), settings(o))
	if err != nil {
		return err
	}
	defer admin.Close()
	committed, err := admin.ListConsumerGroupOffsets(o.Group, h.session.Claims())
	if err != nil {
		return err
	}
	for topic, numbers := range h.session.Claims() {
		for _, number := range numbers {
			next, isRead := h.next[fmt.Sprintf("%s-%d", topic, number)]
			block := committed.GetBlock(topic, number)
			if isRead && (block == nil || block.Offset != next) {
				return fmt.Errorf("%s-%d was not committed at %d", topic, number, next)
			}
		}
	}
	return nil
}

func (h *handler) answerCommit(o options, id int64) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if err := h.commit(o); err != nil {
		reply(id, err)
		return
	}
	emit("reply", fields{"id": id, "offsets": h.next})
}

func consume(o options) error {
	group, err := sarama.NewConsumerGroup(strings.Split(o.Bootstrap, ","), o.Group, settings(o))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	own := &handler{next: map[string]int64{}}
	go func() {
		for err := range group.Errors() {
			emit("error", fields{"message": err.Error()})
		}
	}()
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{o.Topic}, own); err != nil {
				emit("error", fields{"message": err.Error()})
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	for next := range readCommands() {
		own.answerCommit(o, next.ID)
	}
	cancel()
	ended.Wait()
	return group.Close()
}

func send(producer sarama.AsyncProducer, next command, topic string) {
	message := &sarama.ProducerMessage{Topic: topic, Metadata: next.ID}
	if next.Topic != nil {
		message.Topic = *next.Topic
	}
	if next.Partition != nil {
		message.Partition = *next.Partition
	}
	if next.Key != nil {
		message.Key = sarama.StringEncoder(*next.Key)
	}
	if next.Value != nil {
		message.Value = sarama.StringEncoder(*next.Value)
	}
	producer.Input() <- message
}

func produce(o options) error {
	producer, err := sarama.NewAsyncProducer(strings.Split(o.Bootstrap, ","), settings(o))
	if err != nil {
		return err
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		for sent := range producer.Successes() {
			emit("reply", fields{
				"id": sent.Metadata, "topic": sent.Topic, "partition": sent.Partition,
				"offset": sent.Offset,
			})
		}
	})
	answers.Go(func() {
		for failed := range producer.Errors() {
			id, isNumber := failed.Msg.Metadata.(int64)
			if !isNumber {
				emit("error", fields{"message": failed.Err.Error()})
				continue
			}
			reply(id, failed.Err)
		}
	})
	emit("ready", nil)
	for next := range readCommands() {
		switch next.Op {
		case "send":
			send(producer, next, o.Topic)
		case "begin":
			reply(next.ID, producer.BeginTxn())
		case "commit":
			reply(next.ID, producer.CommitTxn())
		case "abort":
			reply(next.ID, producer.AbortTxn())
		default:
			reply(next.ID, fmt.Errorf("unknown op %q", next.Op))
		}
	}
	producer.AsyncClose()
	answers.Wait()
	return nil
}

func main() {
	var o options
	err := json.Unmarshal([]byte(os.Args[1]), &o)
	if err == nil {
		action := produce
		if o.Role == "consume" {
			action = consume
		}
		err = action(o)
	}
	if err != nil {
		emit("error", fields{"message": err.Error(), "isFatal": true})
		os.Exit(1)
	}
	emit("closed", nil)
}
