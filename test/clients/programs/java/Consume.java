// A Java consumer with the line protocol of ../README.md.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class Consume {
    private static final ConcurrentLinkedQueue<JsonNode> COMMANDS = new ConcurrentLinkedQueue<>();
    private static volatile boolean isEnding = false;

    private Consume() {
    }

    private static Properties properties(JsonNode options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap").asText());
        properties.put("client.id", Lines.text(options, "clientId", "java-consumer"));
        properties.put("auto.offset.reset", Lines.text(options, "reset", "earliest"));
        properties.put("isolation.level", Lines.text(options, "isolation", "read_uncommitted"));
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("enable.auto.commit", String.valueOf(options.hasNonNull("autoCommitMs")));
        if (options.hasNonNull("autoCommitMs")) {
            properties.put("auto.commit.interval.ms", options.get("autoCommitMs").asText());
        }
        if (options.hasNonNull("group")) {
            properties.put("group.id", options.get("group").asText());
            if ("consumer".equals(Lines.text(options, "groupProtocol", "classic"))) {
                properties.put("group.protocol", "consumer");
            }
        }
        Lines.addOwnProperties(options, properties);
        return properties;
    }

    private static void printPartitions(String event, Collection<TopicPartition> partitions) {
        ObjectNode line = Lines.event(event);
        ArrayNode names = line.putArray("partitions");
        partitions.forEach(partition -> names.add(partition.toString()));
        Lines.print(line);
    }

    private static final class PrintRebalance implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            printPartitions("revoked", partitions);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            printPartitions("assigned", partitions);
        }
    }

    private static void printRecord(ConsumerRecord<byte[], byte[]> record) {
        Lines.print(Lines.event("record")
            .put("topic", record.topic())
            .put("partition", record.partition())
            .put("offset", record.offset())
            .put("timestamp", record.timestamp())
            .put("key", Lines.string(record.key()))
            .put("value", Lines.string(record.value())));
    }

    private static void start(KafkaConsumer<byte[], byte[]> consumer, JsonNode options) {
        String topic = options.get("topic").asText();
        if (options.hasNonNull("group")) {
            consumer.subscribe(List.of(topic), new PrintRebalance());
            return;
        }
        List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
            .map(info -> new TopicPartition(info.topic(), info.partition())).toList();
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        printPartitions("assigned", partitions);
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer, JsonNode command) {
        try {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition partition : consumer.assignment()) {
                offsets.put(partition, new OffsetAndMetadata(consumer.position(partition)));
            }
            consumer.commitSync(offsets);
            ObjectNode reply = Lines.event("reply").put("id", command.path("id").asLong());
            ObjectNode committed = reply.putObject("offsets");
            offsets.forEach((partition, at) -> committed.put(partition.toString(), at.offset()));
            Lines.print(reply);
        } catch (RuntimeException error) {
            Lines.print(Lines.failure(command, error));
        }
    }

    private static void readCommands() {
        try {
            for (JsonNode command = Lines.read(); command != null; command = Lines.read()) {
                COMMANDS.add(command);
            }
        } catch (java.io.IOException error) {
            System.err.println("stdin: " + error);
        }
        isEnding = true;
    }

    public static void main(String[] args) throws Exception {
        JsonNode options = Lines.JSON.readTree(args[0]);
        long recordsMax = options.path("recordsMax").asLong(Long.MAX_VALUE);
        Thread reader = new Thread(Consume::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        long count = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties(options))) {
            start(consumer, options);
            while (!isEnding && count < recordsMax) {
                try {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        printRecord(record);
                        count++;
                    }
                } catch (RetriableException error) {
                    Lines.print(Lines.event("error").put("message", error.toString()));
                }
                for (JsonNode next = COMMANDS.poll(); next != null; next = COMMANDS.poll()) {
                    commit(consumer, next);
                }
            }
        } catch (RuntimeException error) {
            Lines.print(Lines.event("error").put("message", error.toString()).put("isFatal", true));
            error.printStackTrace();
            System.exit(1);
        }
        Lines.print(Lines.event("closed"));
        System.exit(0);
    }
}
