/*
 * Kafka's own generated message classes as the judge of ours. It knows nothing of our generator:
 * fields, types and nullability come from the classes' own schemas, by reflection.
 *
 *   write SEED COUNT   for every message and version: its default, a filled and COUNT random
 *                      instances, as records (kind, name, version, bytes)
 *   echo               reads records (name, version, bytes) on stdin, decodes and encodes each with
 *                      Kafka's classes; answers (1, bytes) or (0, reason)
 *   refusals           for every struct, version and field which that version lacks: is the field,
 *                      set to something else than its default, dropped or refused?
 *   tables             error numbers (number, name, retriable) and API keys (number, name, lowest,
 *                      highest stable and highest version, then the header versions of each)
 */
import java.io.*;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.zip.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

public class Oracle {
    private static final String PACKAGE = "org.apache.kafka.common.message.";
    private static final String[] TEXTS = {
        "", "a", "topic-1", "h\u00e9llo", "\u4e16\u754c", "\ud83d\ude00 smile", "x".repeat(200), "__consumer_offsets"
    };
    private static final long[] NUMBERS = {0, 1, -1, 2, 127, 128, 255, 32767, 65535, Integer.MAX_VALUE};

    public static void main(String[] arguments) throws Exception {
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        switch (arguments[0]) {
            case "write" -> write(out, Long.parseLong(arguments[1]), Integer.parseInt(arguments[2]));
            case "echo" -> echo(new DataInputStream(new BufferedInputStream(System.in, 1 << 16)), out);
            case "refusals" -> refusals(out);
            case "tables" -> tables(out);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
        out.flush();
    }

    /** Message name to class, for every definition in the jar that has versions. */
    private static SortedMap<String, Class<?>> messages() throws Exception {
        SortedMap<String, Class<?>> found = new TreeMap<>();
        File jar = new File(ApiMessage.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        try (ZipFile zip = new ZipFile(jar)) {
            for (ZipEntry entry : Collections.list(zip.entries())) {
                String path = entry.getName();
                if (!path.startsWith("common/message/") || !path.endsWith(".json")) continue;
                String name = path.substring("common/message/".length(), path.length() - ".json".length());
                Class<?> type = find(PACKAGE + name + "Data", PACKAGE + name);
                if (type != null && type.getField("SCHEMAS").get(null) != null) found.put(name, type);
            }
        }
        return found;
    }

    private static Class<?> find(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        return null;
    }

    private static Message create(Class<?> type) throws Exception {
        return (Message) type.getConstructor().newInstance();
    }

    private static byte[] bytesOf(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static void write(DataOutputStream out, long seed, int count) throws Exception {
        for (Map.Entry<String, Class<?>> entry : messages().entrySet()) {
            Class<?> type = entry.getValue();
            Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
            for (short version = 0; version < schemas.length; version++) {
                Schema schema = schemas[version];
                if (schema == null) continue;
                writeOne(out, "default", entry.getKey(), create(type), version);
                Message filled = create(type);
                new Filler(new Random(seed), true).fill(filled, schema);
                writeOne(out, "filled", entry.getKey(), filled, version);
                for (int index = 0; index < count; index++) {
                    Message random = create(type);
                    long own = seed + 31L * index + 1009L * version + entry.getKey().hashCode();
                    new Filler(new Random(own), false).fill(random, schema);
                    writeOne(out, "random", entry.getKey(), random, version);
                }
            }
        }
    }

    private static void writeOne(DataOutputStream out, String kind, String name, Message message, short version)
            throws IOException {
        byte[] bytes = bytesOf(message, version);
        out.writeUTF(kind);
        out.writeUTF(name);
        out.writeShort(version);
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static void echo(DataInputStream in, DataOutputStream out) throws Exception {
        SortedMap<String, Class<?>> messages = messages();
        while (true) {
            String name;
            try {
                name = in.readUTF();
            } catch (EOFException end) {
                return;
            }
            short version = in.readShort();
            byte[] bytes = new byte[in.readInt()];
            in.readFully(bytes);
            try {
                Message message = create(messages.get(name));
                ByteBuffer buffer = ByteBuffer.wrap(bytes);
                message.read(new ByteBufferAccessor(buffer), version);
                if (buffer.hasRemaining()) throw new IllegalStateException(buffer.remaining() + " bytes left over");
                byte[] again = bytesOf(message, version);
                out.writeByte(1);
                out.writeInt(again.length);
                out.write(again);
            } catch (RuntimeException refused) {
                out.writeByte(0);
                out.writeUTF(String.valueOf(refused));
            }
        }
    }

    private static void tables(DataOutputStream out) throws IOException {
        StringBuilder lines = new StringBuilder();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof org.apache.kafka.common.errors.RetriableException;
            lines.append("error " + error.code() + " " + error.name() + " " + retriable + "\n");
        }
        for (ApiKeys api : ApiKeys.values()) {
            ApiMessageType type = api.messageType;
            int highest = type.highestSupportedVersion(true);
            lines.append("api " + api.id + " " + api.name + " " + type.lowestSupportedVersion());
            lines.append(" " + type.highestSupportedVersion(false) + " " + highest);
            for (short version = type.lowestSupportedVersion(); version <= highest; version++) {
                lines.append(" " + type.requestHeaderVersion(version) + "/" + type.responseHeaderVersion(version));
            }
            lines.append("\n");
        }
        out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static void refusals(DataOutputStream out) throws Exception {
        for (Map.Entry<String, Class<?>> entry : messages().entrySet()) {
            List<Class<?>> structs = new ArrayList<>();
            structs.add(entry.getValue());
            for (Class<?> nested : entry.getValue().getDeclaredClasses()) {
                if (Message.class.isAssignableFrom(nested)) structs.add(nested);
            }
            for (Class<?> struct : structs) refusalsOf(out, entry.getKey(), struct, struct == entry.getValue());
        }
    }

    private static void refusalsOf(DataOutputStream out, String message, Class<?> struct, boolean top)
            throws Exception {
        Schema[] schemas = (Schema[]) struct.getField("SCHEMAS").get(null);
        Map<String, Type> all = new TreeMap<>();
        for (Schema schema : schemas) if (schema != null) all.putAll(fieldsOf(schema));
        for (short version = 0; version < schemas.length; version++) {
            if (schemas[version] == null) continue;
            Set<String> present = fieldsOf(schemas[version]).keySet();
            for (Map.Entry<String, Type> field : all.entrySet()) {
                if (present.contains(field.getKey())) continue;
                Message instance = create(struct);
                new Filler(new Random(1), true).set(instance, field.getKey(), field.getValue());
                String outcome;
                try {
                    instance.size(new ObjectSerializationCache(), version);
                    bytesOf(instance, version);
                    outcome = "dropped";
                } catch (org.apache.kafka.common.errors.UnsupportedVersionException refused) {
                    outcome = "refused";
                } catch (NullPointerException other) {
                    continue; // another field of the instance must not be null: says nothing here
                }
                String name = top ? message : struct.getSimpleName();
                String line = String.join(" ", message, name, "" + version, field.getKey(), outcome);
                out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
            }
        }
    }

    /** Names (without underscores) and types of all fields, tagged ones included. */
    private static Map<String, Type> fieldsOf(Schema schema) {
        Map<String, Type> fields = new LinkedHashMap<>();
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields tagged) {
                for (Field field : tagged.fields().values()) fields.put(plain(field.name), field.type);
            } else {
                fields.put(plain(bound.def.name), bound.def.type);
            }
        }
        return fields;
    }

    private static String plain(String name) {
        return name.replace("_", "").toLowerCase(Locale.ROOT);
    }

    /** Puts values into messages, as the schema of one version allows. */
    private static final class Filler {
        private final Random random;
        private final boolean everything;

        Filler(Random random, boolean everything) {
            this.random = random;
            this.everything = everything;
        }

        void fill(Message message, Schema schema) throws Exception {
            int highestTag = -1;
            boolean flexible = false;
            for (BoundField bound : schema.fields()) {
                if (bound.def.type instanceof TaggedFields tagged) {
                    flexible = true;
                    for (Map.Entry<Integer, Field> entry : tagged.fields().entrySet()) {
                        highestTag = Math.max(highestTag, entry.getKey());
                        boolean leave = !everything && random.nextInt(3) == 0;
                        if (!leave) set(message, entry.getValue().name, entry.getValue().type);
                    }
                } else {
                    set(message, bound.def.name, bound.def.type);
                }
            }
            if (!flexible || (!everything && random.nextInt(4) != 0)) return;
            int tag = highestTag;
            for (int left = 1 + random.nextInt(2); left > 0; left--) {
                tag += 1 + random.nextInt(200);
                byte[] data = new byte[random.nextInt(200)];
                random.nextBytes(data);
                message.unknownTaggedFields().add(new RawTaggedField(tag, data));
            }
        }

        void set(Message message, String name, Type type) throws Exception {
            Method setter = setterOf(message.getClass(), name);
            Class<?> wanted = setter.getParameterTypes()[0];
            if (type.isNullable() && !everything && random.nextInt(4) == 0) {
                setter.invoke(message, new Object[] {null});
            } else {
                setter.invoke(message, value(type, wanted, setter.getGenericParameterTypes()[0]));
            }
        }

        private Method setterOf(Class<?> owner, String name) {
            String wanted = "set" + plain(name);
            for (Method method : owner.getDeclaredMethods()) {
                if (method.getName().toLowerCase(Locale.ROOT).equals(wanted)) return method;
            }
            throw new IllegalStateException(owner + " has no setter for " + name);
        }

        private Object value(Type type, Class<?> wanted, java.lang.reflect.Type generic) throws Exception {
            if (type.arrayElementType().isPresent()) return array(type.arrayElementType().get(), wanted, generic);
            if (type instanceof Schema schema) {
                Message inner = create(wanted);
                fill(inner, schema);
                return inner;
            }
            if (wanted == String.class) return text();
            if (wanted == Uuid.class) return everything ? new Uuid(1, 2) : new Uuid(random.nextLong(), random.nextLong());
            if (wanted == byte[].class) return bytes();
            if (wanted == ByteBuffer.class) return ByteBuffer.wrap(bytes());
            if (wanted == BaseRecords.class) return MemoryRecords.readableRecords(ByteBuffer.wrap(bytes()));
            if (wanted == boolean.class || wanted == Boolean.class) return everything || random.nextBoolean();
            if (wanted == double.class || wanted == Double.class) return everything ? 1.5 : random.nextGaussian();
            return number(type, wanted);
        }

        private Object number(Type type, Class<?> wanted) {
            long any = everything ? 7 : random.nextBoolean() ? random.nextLong() : NUMBERS[random.nextInt(NUMBERS.length)];
            if (wanted == byte.class || wanted == Byte.class) return (byte) any;
            if (wanted == short.class || wanted == Short.class) return (short) any;
            if (wanted == int.class || wanted == Integer.class) {
                return type == Type.UINT16 ? (int) any & 0xffff : (int) any;
            }
            if (wanted == long.class || wanted == Long.class) {
                return type == Type.UNSIGNED_INT32 ? any & 0xffffffffL : any;
            }
            throw new IllegalStateException("no value for " + wanted);
        }

        private Object array(Type element, Class<?> wanted, java.lang.reflect.Type generic) throws Exception {
            java.lang.reflect.Type elementType = generic instanceof ParameterizedType listType
                ? listType.getActualTypeArguments()[0]
                : ((ParameterizedType) wanted.getGenericSuperclass()).getActualTypeArguments()[0];
            @SuppressWarnings("unchecked")
            Collection<Object> items = wanted == List.class
                ? new ArrayList<>()
                : (Collection<Object>) wanted.getConstructor().newInstance();
            int count = everything ? 2 : random.nextInt(4);
            for (int index = 0; index < count; index++) {
                items.add(value(element, (Class<?>) elementType, elementType));
            }
            return items;
        }

        private String text() {
            return everything ? "filled" : TEXTS[random.nextInt(TEXTS.length)];
        }

        private byte[] bytes() {
            byte[] bytes = new byte[everything ? 5 : random.nextInt(8) == 0 ? 3000 : random.nextInt(40)];
            random.nextBytes(bytes);
            return bytes;
        }
    }
}
