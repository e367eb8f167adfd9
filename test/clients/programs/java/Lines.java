// The line protocol that all programs in this folder share: see ../README.md.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;
    private static final BufferedReader IN =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Lines() {
    }

    static ObjectNode event(String name) {
        return JSON.createObjectNode().put("event", name);
    }

    static void print(ObjectNode line) {
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    /** The next command, or null when stdin has ended. */
    static JsonNode read() throws IOException {
        String line = IN.readLine();
        return line == null ? null : JSON.readTree(line);
    }

    static ObjectNode failure(JsonNode command, Throwable error) {
        return event("reply")
            .put("id", command.path("id").asLong())
            .put("error", String.valueOf(error.getMessage()))
            .put("code", error.getClass().getSimpleName());
    }

    static String text(JsonNode options, String name, String otherwise) {
        JsonNode value = options.get(name);
        return value == null || value.isNull() ? otherwise : value.asText();
    }

    static byte[] bytes(JsonNode value) {
        return value == null || value.isNull()
            ? null
            : value.asText().getBytes(StandardCharsets.UTF_8);
    }

    static String string(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static void addOwnProperties(JsonNode options, Properties properties) {
        JsonNode own = options.path("properties");
        own.fieldNames().forEachRemaining(name -> properties.put(name, own.get(name).asText()));
    }
}
