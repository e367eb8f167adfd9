import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.connect.mirror.formatters.CheckpointFormatter;
import org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter;

/** What MirrorMaker 2's own client library and formatters make of a cluster: BOOTSTRAP ALIAS GROUP. */
public class MirrorClientProbe {
    public static void main(String[] args) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", args[0]);
        var offsets = RemoteClusterUtils.translateOffsets(properties, args[1], args[2], Duration.ofSeconds(30));
        var sorted = new TreeMap<String, Long>();
        offsets.forEach((partition, offset) -> sorted.put(partition.toString(), offset.offset()));
        System.out.println("offsets " + sorted);
        System.out.println("upstream " + RemoteClusterUtils.upstreamClusters(properties));
        System.out.println("hops " + RemoteClusterUtils.replicationHops(properties, args[1]));
        Map<String, Object> consuming = Map.of("bootstrap.servers", args[0], "auto.offset.reset", "earliest");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(consuming, bytes, bytes)) {
            consumer.assign(List.of(new TopicPartition(args[1] + ".heartbeats", 0)));
            var heartbeat = consumer.poll(Duration.ofSeconds(30)).iterator().next();
            new HeartbeatFormatter().writeTo(heartbeat, System.out);
            consumer.assign(List.of(new TopicPartition(args[1] + ".checkpoints.internal", 0)));
            var checkpoint = consumer.poll(Duration.ofSeconds(30)).iterator().next();
            new CheckpointFormatter().writeTo(checkpoint, System.out);
        }
    }
}
