/*
 * Kafka's own record batches as the judge of ours.
 *
 *   write SEED   batches of every compression, with nulls, headers, gaps, control markers:
 *                label, bytes, records (as Kafka reads them)
 *   golden NAME  one batch of 50 known records in that compression, as it is, for test/golden/
 *   open         reads batches (bytes) on stdin; answers with validity and records of each
 */
import java.io.*;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;

public class BatchOracle {
    public static void main(String[] arguments) throws Exception {
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        if (arguments[0].equals("write")) write(out, new Random(Long.parseLong(arguments[1])));
        else if (arguments[0].equals("golden")) golden(out, arguments[1]);
        else open(new DataInputStream(new BufferedInputStream(System.in, 1 << 16)), out);
        out.flush();
    }

    private static void write(DataOutputStream out, Random random) throws Exception {
        Map<String, Compression> compressions = new LinkedHashMap<>();
        compressions.put("none", Compression.NONE);
        compressions.put("gzip", Compression.gzip().build());
        compressions.put("snappy", Compression.snappy().build());
        compressions.put("lz4", Compression.lz4().build());
        compressions.put("zstd", Compression.zstd().build());
        for (Map.Entry<String, Compression> entry : compressions.entrySet()) {
            for (TimestampType timestamps : List.of(TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)) {
                for (int records : new int[] {1, 3, 100, 2000}) {
                    String label = entry.getKey() + " " + timestamps + " " + records;
                    writeOne(out, label, build(random, entry.getValue(), timestamps, records));
                }
            }
        }
        for (ControlRecordType type : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT)) {
            EndTransactionMarker marker = new EndTransactionMarker(type, 7);
            MemoryRecords control = MemoryRecords.withEndTransactionMarker(42L, 1234567L, 5, 99L, (short) 3, marker);
            writeOne(out, "control " + type, control.buffer());
        }
    }

    private static void golden(DataOutputStream out, String name) throws IOException {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), (byte) 2,
            Compression.of(name).build(), TimestampType.CREATE_TIME, 500L, 0L, -1L, (short) -1, -1, false, 3);
        for (int index = 0; index < 50; index++) {
            byte[] value = ("value " + index + " ").repeat(20).getBytes(java.nio.charset.StandardCharsets.UTF_8);
            builder.appendWithOffset(500L + index, 1700000000000L + index, ("key " + index).getBytes(), value);
        }
        ByteBuffer buffer = builder.build().buffer();
        out.write(buffer.array(), buffer.arrayOffset() + buffer.position(), buffer.remaining());
    }

    private static ByteBuffer build(Random random, Compression compression, TimestampType timestamps, int records) {
        boolean transactional = random.nextBoolean();
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), (byte) 2, compression,
            timestamps, 1000L, 1700000000123L, transactional ? 77L : -1L, (short) (transactional ? 1 : -1),
            transactional ? 5 : -1, transactional, false, 9);
        long offset = 1000L;
        for (int index = 0; index < records; index++) {
            Header[] headers = new Header[random.nextInt(5) == 0 ? 2 : 0];
            for (int header = 0; header < headers.length; header++) {
                headers[header] = new RecordHeader("h\u00e9" + header, header == 0 ? null : bytes(random));
            }
            long timestamp = 1700000000000L + random.nextInt(1000) - 500;
            ByteBuffer key = random.nextInt(4) == 0 ? null : ByteBuffer.wrap(bytes(random));
            ByteBuffer value = random.nextInt(4) == 0 ? null : ByteBuffer.wrap(bytes(random));
            builder.appendWithOffset(offset, timestamp, key, value, headers);
            offset += 1 + (random.nextInt(10) == 0 ? 3 : 0);
        }
        return builder.build().buffer();
    }

    /** Half of it repeats, so that compressors find something. */
    private static byte[] bytes(Random random) {
        byte[] bytes = new byte[random.nextInt(80)];
        random.nextBytes(bytes);
        Arrays.fill(bytes, bytes.length / 2, bytes.length, (byte) 'x');
        return bytes;
    }

    private static void writeOne(DataOutputStream out, String label, ByteBuffer buffer) throws IOException {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        out.writeUTF(label);
        out.writeInt(bytes.length);
        out.write(bytes);
        dump(out, bytes);
    }

    private static void open(DataInputStream in, DataOutputStream out) throws IOException {
        while (true) {
            int length;
            try {
                length = in.readInt();
            } catch (EOFException end) {
                return;
            }
            byte[] bytes = new byte[length];
            in.readFully(bytes);
            dump(out, bytes);
        }
    }

    private static void dump(DataOutputStream out, byte[] bytes) throws IOException {
        RecordBatch batch = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches().iterator().next();
        batch.ensureValid();
        List<org.apache.kafka.common.record.internal.Record> records = new ArrayList<>();
        batch.forEach(records::add);
        out.writeInt(records.size());
        for (org.apache.kafka.common.record.internal.Record record : records) {
            out.writeLong(record.offset());
            out.writeLong(record.timestamp());
            writeBytes(out, record.key());
            writeBytes(out, record.value());
            out.writeInt(record.headers().length);
            for (Header header : record.headers()) {
                out.writeUTF(header.key());
                writeBytes(out, header.value() == null ? null : ByteBuffer.wrap(header.value()));
            }
        }
    }

    private static void writeBytes(DataOutputStream out, ByteBuffer buffer) throws IOException {
        if (buffer == null) {
            out.writeInt(-1);
            return;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
