// Kafka's own command line tools, one after the other in one JVM: {"op":"tool","id","main","args"}
// runs the main method of a class and answers with its exit code and what it printed. What a tool
// reads from stdin is in "stdin".
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.internals.Exit;

public final class Tools {
    /** Thrown in place of the end of the JVM. An error, so that few tools catch it. */
    private static final class Ended extends Error {
        private Ended(int code) {
            super("exit " + code, null, false, false);
        }
    }

    /** The first exit code of the tool: some tools catch even an Error and exit once more. */
    private static Integer exitCode;

    private Tools() {
    }

    private static void end(int code) {
        if (exitCode == null) {
            exitCode = code;
        }
        throw new Ended(code);
    }

    private static void call(String main, List<String> args) throws ReflectiveOperationException {
        try {
            Class.forName(main).getMethod("main", String[].class)
                .invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException wrapped) {
            Throwable error = wrapped.getCause();
            if (!(error instanceof Ended)) {
                error.printStackTrace();
                exitCode = exitCode == null ? Integer.valueOf(1) : exitCode;
            }
        }
    }

    private static ObjectNode run(JsonNode command) throws ReflectiveOperationException {
        List<String> args = new ArrayList<>();
        command.path("args").forEach(arg -> args.add(arg.asText()));
        PrintStream out = System.out;
        PrintStream err = System.err;
        InputStream in = System.in;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        exitCode = null;
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(
            Lines.text(command, "stdin", "").getBytes(StandardCharsets.UTF_8)));
        try {
            call(command.path("main").asText(), args);
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(out);
            System.setErr(err);
            System.setIn(in);
        }
        return Lines.event("reply")
            .put("id", command.path("id").asLong())
            .put("exitCode", exitCode == null ? 0 : exitCode)
            .put("stdout", printed.toString(StandardCharsets.UTF_8))
            .put("stderr", complained.toString(StandardCharsets.UTF_8));
    }

    public static void main(String[] args) throws Exception {
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        for (JsonNode command = Lines.read(); command != null; command = Lines.read()) {
            ObjectNode reply;
            try {
                reply = run(command);
            } catch (ReflectiveOperationException error) {
                reply = Lines.failure(command, error);
            }
            Lines.print(reply);
        }
        System.exit(0);
    }
}
