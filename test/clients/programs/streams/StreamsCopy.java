// A Kafka Streams application, exactly once: copies `in` to `out`, and counts its values by their
// last digit into `counts`, by way of a repartition topic and a state store with a changelog.
// Arguments: bootstrap, in, out, counts, state directory, application id, and `classic` or `streams`
// (KIP-1071) as the protocol of its group. Prints {"event":"state","state"} for each
// change of its state and {"event":"error","message"} for what a thread dies of; ends with stdin.
// A single file: `java StreamsCopy.java`.
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.KStream;

public final class StreamsCopy {
    private StreamsCopy() {
    }

    private static void print(String event, String field, String value) {
        String escaped = value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ");
        System.out.println(
            "{\"event\":\"" + event + "\",\"" + field + "\":\"" + escaped + "\"}");
    }

    private static Properties properties(String[] args) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, args[5]);
        properties.put("group.protocol", args[6]);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        properties.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "1");
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "500");
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put("auto.offset.reset", "earliest");
        return properties;
    }

    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> in = builder.stream(args[1]);
        in.to(args[2]);
        in.selectKey((key, value) -> value.substring(value.length() - 1))
            .groupByKey()
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(args[3]);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties(args));
        streams.setStateListener((now, before) -> print("state", "state", now.name()));
        streams.setUncaughtExceptionHandler(error -> {
            print("error", "message", String.valueOf(error));
            error.printStackTrace();
            return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (System.in.read() >= 0) {
            // Nothing is said on stdin; its end is the end.
        }
        streams.close();
        System.exit(0);
    }
}
