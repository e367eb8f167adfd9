// A Java producer with the line protocol of ../README.md.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Produce {
    private Produce() {
    }

    private static Properties properties(JsonNode options) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", options.get("bootstrap").asText());
        properties.put("client.id", Lines.text(options, "clientId", "java-producer"));
        properties.put("acks", Lines.text(options, "acks", "all"));
        properties.put("compression.type", Lines.text(options, "compression", "none"));
        properties.put("linger.ms", Lines.text(options, "lingerMs", "0"));
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        boolean isTransactional = options.hasNonNull("transactionalId");
        boolean isIdempotent = isTransactional || options.path("isIdempotent").asBoolean(false);
        properties.put("enable.idempotence", String.valueOf(isIdempotent));
        if (isTransactional) {
            properties.put("transactional.id", options.get("transactionalId").asText());
        }
        Lines.addOwnProperties(options, properties);
        return properties;
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode command, String topic) {
        JsonNode partition = command.get("partition");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            Lines.text(command, "topic", topic),
            partition == null || partition.isNull() ? null : Integer.valueOf(partition.asInt()),
            Lines.bytes(command.get("key")),
            Lines.bytes(command.get("value")));
        producer.send(record, (metadata, error) -> {
            if (error != null) {
                Lines.print(Lines.failure(command, error));
                return;
            }
            ObjectNode reply = Lines.event("reply").put("id", command.path("id").asLong());
            Lines.print(reply.put("topic", metadata.topic())
                .put("partition", metadata.partition())
                .put("offset", metadata.hasOffset() ? metadata.offset() : -1));
        });
    }

    private static void run(KafkaProducer<byte[], byte[]> producer, JsonNode command, String topic) {
        String op = command.path("op").asText();
        switch (op) {
            case "send":
                send(producer, command, topic);
                return;
            case "begin":
                producer.beginTransaction();
                break;
            case "commit":
                producer.commitTransaction();
                break;
            case "abort":
                producer.abortTransaction();
                break;
            case "flush":
                producer.flush();
                break;
            default:
                throw new IllegalArgumentException("unknown op " + op);
        }
        Lines.print(Lines.event("reply").put("id", command.path("id").asLong()));
    }

    public static void main(String[] args) throws Exception {
        JsonNode options = Lines.JSON.readTree(args[0]);
        String topic = Lines.text(options, "topic", null);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties(options))) {
            if (options.hasNonNull("transactionalId")) {
                producer.initTransactions();
            }
            Lines.print(Lines.event("ready"));
            for (JsonNode command = Lines.read(); command != null; command = Lines.read()) {
                try {
                    run(producer, command, topic);
                } catch (RuntimeException error) {
                    Lines.print(Lines.failure(command, error));
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
