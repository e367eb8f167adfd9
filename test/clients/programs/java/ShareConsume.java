// A Java share consumer with the line protocol of ../README.md. The group begins at the earliest
// record. An error that poll() throws is printed and polling goes on, as an application may do.
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class ShareConsume {
    private static volatile boolean isEnding = false;

    private ShareConsume() {
    }

    private static Properties properties(JsonNode options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap").asText());
        properties.put("client.id", Lines.text(options, "clientId", "java-share-consumer"));
        properties.put("group.id", options.get("group").asText());
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        Lines.addOwnProperties(options, properties);
        return properties;
    }

    private static void beginAtEarliest(JsonNode options)
        throws ExecutionException, InterruptedException {
        String bootstrap = options.get("bootstrap").asText();
        ConfigResource group =
            new ConfigResource(ConfigResource.Type.GROUP, options.get("group").asText());
        AlterConfigOp earliest = new AlterConfigOp(
            new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
        }
    }

    private static void waitForEndOfInput() {
        try {
            while (Lines.read() != null) {
                System.err.println("a share consumer takes no commands");
            }
        } catch (IOException error) {
            System.err.println("stdin: " + error);
        }
        isEnding = true;
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

    public static void main(String[] args) throws Exception {
        JsonNode options = Lines.JSON.readTree(args[0]);
        Thread reader = new Thread(ShareConsume::waitForEndOfInput, "commands");
        reader.setDaemon(true);
        reader.start();
        beginAtEarliest(options);
        try (KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(properties(options))) {
            consumer.subscribe(List.of(options.get("topic").asText()));
            while (!isEnding) {
                try {
                    consumer.poll(Duration.ofMillis(100)).forEach(ShareConsume::printRecord);
                } catch (AuthorizationException error) {
                    Lines.print(Lines.event("error").put("message", error.toString()));
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
