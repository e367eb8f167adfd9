// Shapes of the admin HTTP API: Confluent's REST v3 for links and mirrors (all fields of cloud and
// on-prem together), and our own under /causeway/v1. Request shapes are checked and closed, so that
// a mistyped name is refused; response shapes are documentation for /openapi.json.
import Type, { type TSchema } from 'typebox';

const closed = { additionalProperties: false } as const;
const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const text = Type.String();
const int32 = Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 });
/** Numbers up to 2^53 - 1, strings of digits above. */
const int64 = Type.Union([Type.Integer(), Type.String({ pattern: '^-?[0-9]+$' })]);
/** In requests, where more digits than an offset has would only cost time. */
const offset = Type.Union([
  Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  Type.String({ pattern: '^[0-9]{1,19}$' }),
]);

const metadata = Type.Object({ self: text, resource_name: nullable(text) });
const listMetadata = Type.Object({ self: text, next: nullable(text) });
const configRow = Type.Object(
  { name: text, value: Type.Optional(nullable(text)) },
  { additionalProperties: false },
);

export const listOf = (kind: string, row: TSchema) =>
  Type.Object({ kind: Type.Literal(kind), metadata: listMetadata, data: Type.Array(row) });

/** The shape of an answer, for documentation only: json.ts writes what a handler returns. */
export const answer = (schema: TSchema): unknown => ({ 200: schema });

// Parameters and queries.
export const clusterParams = Type.Object({ cluster_id: text });
export const linkParams = Type.Object({ cluster_id: text, link_name: text });
export const linkConfigParams = Type.Object({ cluster_id: text, link_name: text, name: text });
export const mirrorParams = Type.Object({ cluster_id: text, link_name: text, topic: text });
export const topicParams = Type.Object({ cluster_id: text, topic: text });

const flag = Type.Boolean({ default: false });
export const createLinkQuery = Type.Object(
  {
    link_name: Type.String({ minLength: 1 }),
    validate_only: flag,
    validate_link: Type.Boolean({ default: true }),
  },
  closed,
);
export const getLinkQuery = Type.Object({ include_tasks: flag }, closed);
export const deleteLinkQuery = Type.Object({ force: flag, validate_only: flag }, closed);
export const validateOnlyQuery = Type.Object({ validate_only: flag }, closed);
export const listMirrorsQuery = Type.Object({ mirror_status: Type.Optional(text) }, closed);
export const getMirrorQuery = Type.Object({ include_state_transition_errors: flag }, closed);
export const deleteTopicQuery = Type.Object({ keep_topic: flag, validate_only: flag }, closed);

// Bodies.
export const createLinkBody = Type.Object(
  {
    source_cluster_id: Type.Optional(nullable(text)),
    destination_cluster_id: Type.Optional(nullable(text)),
    remote_cluster_id: Type.Optional(nullable(text)),
    cluster_link_id: Type.Optional(nullable(text)),
    configs: Type.Optional(nullable(Type.Array(configRow))),
  },
  closed,
);
export const putConfigBody = Type.Object({ value: nullable(text) }, closed);
export const alterConfigsBody = Type.Object(
  {
    data: Type.Array(
      Type.Object(
        {
          name: text,
          value: Type.Optional(nullable(text)),
          operation: Type.Optional(Type.Enum(['SET', 'DELETE'])),
        },
        closed,
      ),
      { minItems: 1 },
    ),
  },
  closed,
);
export const createMirrorBody = Type.Object(
  {
    source_topic_name: Type.String({ minLength: 1 }),
    mirror_topic_name: Type.Optional(nullable(text)),
    replication_factor: Type.Optional(nullable(Type.Integer({ minimum: -1, maximum: 32_767 }))),
    configs: Type.Optional(nullable(Type.Array(configRow))),
  },
  closed,
);
export const alterMirrorsBody = Type.Object(
  {
    mirror_topic_names: Type.Optional(nullable(Type.Array(text))),
    mirror_topic_name_pattern: Type.Optional(nullable(Type.String({ maxLength: 1000 }))),
  },
  closed,
);

// Answers of v3.
export const clusterData = Type.Object({
  kind: Type.Literal('KafkaCluster'),
  metadata,
  cluster_id: text,
});
const taskError = Type.Object({ error_code: text, error_message: text });
const task = Type.Object({
  task_name: text,
  state: text,
  errors: Type.Array(taskError),
  last_success_time_ms: int64,
});
export const linkData = Type.Object({
  kind: Type.Literal('KafkaLinkData'),
  metadata,
  source_cluster_id: nullable(text),
  destination_cluster_id: nullable(text),
  remote_cluster_id: nullable(text),
  link_name: text,
  link_id: text,
  cluster_link_id: text,
  topic_names: Type.Array(text),
  link_state: text,
  link_error: text,
  link_error_message: nullable(text),
  tasks: Type.Optional(Type.Array(task)),
  category_counts: Type.Array(Type.Object({ state_category: text, count: int32 })),
  last_contact_time_ms: int64,
  last_contact_is_recorded: Type.Boolean(),
  rpo_seconds: nullable(Type.Number()),
  rpo_is_at_most: Type.Boolean(),
  rpo_unknown_topics: Type.Array(text),
});
export const linkConfigData = Type.Object({
  kind: Type.Literal('KafkaLinkConfigData'),
  metadata,
  cluster_id: text,
  name: text,
  value: text,
  is_default: Type.Boolean(),
  is_read_only: Type.Boolean(),
  is_sensitive: Type.Boolean(),
  default: Type.Boolean(),
  read_only: Type.Boolean(),
  sensitive: Type.Boolean(),
  source: text,
  synonyms: Type.Array(text),
  link_name: text,
});
const mirrorLag = Type.Object({ partition: int32, lag: int64, last_source_fetch_offset: int64 });
export const mirrorData = Type.Object({
  kind: Type.Literal('KafkaMirrorData'),
  metadata,
  link_name: text,
  mirror_topic_name: text,
  source_topic_name: text,
  num_partitions: int32,
  mirror_lags: Type.Array(mirrorLag),
  mirror_status: text,
  mirror_topic_error: text,
  state_time_ms: int64,
  mirror_state_transition_errors: Type.Array(taskError),
});
const alterMirrorsRow = Type.Object({
  kind: Type.Literal('AlterMirrorsData'),
  metadata,
  mirror_topic_name: text,
  error_code: nullable(int32),
  error_message: nullable(text),
  mirror_lags: Type.Array(mirrorLag),
  messages_truncated: nullable(int64),
  partition_level_truncation_data: Type.Array(Type.Unknown()),
});
export const alterMirrorsData = Type.Object({
  kind: Type.Literal('KafkaPromoteMirror'),
  metadata: listMetadata,
  data: Type.Array(alterMirrorsRow),
  receipt_id: nullable(text),
});

// Our own, under /causeway/v1, in camelCase.
export const ownValidateOnlyQuery = Type.Object({ validateOnly: flag }, closed);
export const deleteMirrorQuery = Type.Object({ keepTopic: flag, validateOnly: flag }, closed);
export const eventsQuery = Type.Object(
  {
    since: Type.Integer({ minimum: 0, default: 0 }),
    waitMs: Type.Integer({ minimum: 0, maximum: 60_000, default: 0 }),
    limit: Type.Integer({ minimum: 1, maximum: 10_000, default: 1000 }),
  },
  closed,
);
export const ownTopicParams = Type.Object({ topic: text });
export const ownLinkParams = Type.Object({ link: text });
export const receiptParams = Type.Object({ id: text });
export const ownMirrorsQuery = Type.Object(
  { link: Type.Optional(text), status: Type.Optional(text) },
  closed,
);
export const commandBody = Type.Object(
  {
    topics: Type.Optional(Type.Array(text)),
    link: Type.Optional(nullable(text)),
    all: Type.Optional(Type.Boolean()),
    deadlineMs: Type.Optional(Type.Integer({ minimum: 1000, maximum: 86_400_000 })),
    atomic: Type.Optional(Type.Boolean()),
    fenceSource: Type.Optional(Type.Boolean()),
    acceptLoss: Type.Optional(Type.Boolean()),
    requireReplicated: Type.Optional(Type.Boolean()),
    written: Type.Optional(
      Type.Union([Type.Literal('refuse'), Type.Literal('adopt'), Type.Literal('discard')]),
    ),
  },
  closed,
);
export const writersBody = Type.Object(
  {
    topics: Type.Optional(Type.Array(text)),
    link: Type.Optional(nullable(text)),
    all: Type.Optional(Type.Boolean()),
    withinMs: Type.Integer({ minimum: 1000, maximum: 86_400_000, default: 600_000 }),
  },
  closed,
);
export const writersData = Type.Object({
  writers: Type.Array(
    Type.Object({
      link: text,
      topic: text,
      partition: int32,
      producerId: int64,
      producerEpoch: int32,
      lastTimeMs: int64,
      isInTransaction: Type.Boolean(),
    }),
  ),
  writersCount: int32,
  problems: Type.Array(Type.Object({ topic: text, message: text })),
  problemsCount: int32,
});
export const detachBody = Type.Object({ dropHistory: Type.Boolean({ default: false }) }, closed);
export const recreateBody = Type.Object(
  { archiveAs: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 249 }))) },
  closed,
);
export const verifyBody = Type.Object(
  {
    partition: Type.Integer({ minimum: 0, maximum: 2_147_483_647 }),
    since: Type.Optional(nullable(offset)),
    from: Type.Optional(nullable(offset)),
    end: Type.Optional(nullable(offset)),
    hash: Type.Optional(nullable(Type.String({ pattern: '^([0-9a-f]{64})?$' }))),
    bytesPerSecond: Type.Integer({ minimum: 1024, maximum: 1e10, default: 20_000_000 }),
  },
  closed,
);
export const verifyData = Type.Object({
  topic: text,
  partition: int32,
  start: int64,
  end: int64,
  next: int64,
  batches: Type.Integer(),
  bytes: Type.Integer(),
  hash: text,
  isDone: Type.Boolean(),
  difference: nullable(Type.Object({ offset: int64, kind: text, message: text })),
});
export const partitionData = Type.Object({
  partition: int32,
  logStart: int64,
  mirrorEnd: int64,
  sourceEnd: int64,
  heardTimeMs: int64,
  lagRecords: nullable(int64),
  lagRecordsMin: nullable(int64),
  lagBytes: nullable(int64),
  lagSeconds: nullable(Type.Number()),
  isStalled: Type.Boolean(),
  stallCause: nullable(text),
  sizeBytes: nullable(int64),
  damagedRanges: nullable(Type.Integer()),
});
const coded = Type.Object({ code: text, message: text });
const reason = Type.Object({ code: text, message: text, remedy: nullable(text) });
export const ownMirrorData = Type.Object({
  name: text,
  topicId: nullable(text),
  link: text,
  sourceTopic: text,
  state: text,
  phase: nullable(text),
  stateTimeMs: int64,
  error: nullable(coded),
  stoppedBy: nullable(text),
  partitions: Type.Array(partitionData),
  growth: nullable(
    Type.Object({ sourcePartitions: int32, sinceTimeMs: int64, cause: nullable(text) }),
  ),
  blocking: Type.Array(reason),
  notices: Type.Array(reason),
  strayRecords: nullable(int64),
  lostRanges: Type.Array(Type.Object({ partition: int32, from: int64, to: int64, timeMs: int64 })),
  lostTotals: Type.Array(Type.Object({ partition: int32, ranges: int32, records: int64 })),
});
export const detachData = Type.Object({
  topic: text,
  isDone: Type.Boolean(),
  partitions: Type.Array(
    Type.Object({
      partition: int32,
      virtualEnd: int64,
      offsetShift: int64,
      historyStart: nullable(int64),
      historyBytes: nullable(int64),
    }),
  ),
  groups: Type.Array(
    Type.Object({ group: text, partition: int32, oldOffset: int64, newOffset: int64 }),
  ),
  blocking: Type.Array(reason),
});
export const leftoversData = Type.Object({
  leftovers: Type.Array(Type.Object({ kind: text, subject: text, detail: text, remedy: text })),
});
export const receiptData = Type.Object({
  id: text,
  command: text,
  actor: text,
  timeMs: int64,
  topics: Type.Array(
    Type.Object({
      topic: text,
      link: text,
      partitions: Type.Array(
        Type.Object({
          partition: int32,
          virtualEnd: int64,
          nativeEnd: int64,
          firstEpoch: int32,
          sourceEnd: int64,
          mirroredEnd: int64,
          lostRecords: int64,
          lostBytes: int64,
          lostSeconds: int64,
          lastContactTimeMs: int64,
          abortedTransactions: int32,
          found: nullable(Type.Object({ sourceEnd: int64, lostRecords: int64 })),
        }),
      ),
      groups: Type.Array(
        Type.Object({ group: text, partition: int32, oldOffset: int64, newOffset: int64 }),
      ),
      groupsCount: int32,
      duplicates: Type.Object({
        expected: int64,
        possible: int64,
        readTimeMs: int64,
        groups: Type.Array(
          Type.Object({
            group: text,
            partition: int32,
            position: int64,
            expected: int64,
            possible: int64,
          }),
        ),
        groupsCount: int32,
      }),
      historyCopies: int32,
      completedTimeMs: int64,
    }),
  ),
});
export const commandData = Type.Object({
  rows: Type.Array(
    Type.Object({
      topic: text,
      state: nullable(text),
      error: nullable(coded),
      partitions: Type.Array(partitionData),
    }),
  ),
  receipt: nullable(receiptData),
});
const groupRow = Type.Object({
  group: text,
  sourceGroup: text,
  kind: text,
  topic: text,
  partition: int32,
  sourceOffset: int64,
  destinationOffset: int64,
  held: nullable(text),
});
export const groupsData = Type.Object({ groups: Type.Array(groupRow) });
export const groupParams = Type.Object({ link: text, group: text });
export const handoverBody = Type.Object(
  { deadlineMs: Type.Optional(Type.Integer({ minimum: 1000, maximum: 86_400_000 })) },
  closed,
);
export const handoverData = Type.Object({
  group: text,
  sourceGroup: text,
  link: text,
  state: text,
  waitingFor: nullable(text),
  deadlineTimeMs: int64,
  endTimeMs: int64,
});
export const handoversData = Type.Object({ handovers: Type.Array(handoverData) });

export const taskPlanData = Type.Object({
  task: text,
  changes: Type.Array(Type.Object({ action: text, subject: text, detail: text })),
  problems: Type.Array(Type.Object({ code: text, message: text })),
});
export const taskPlansData = Type.Object({ tasks: Type.Array(taskPlanData) });
export const eventData = Type.Object({
  id: int64,
  timeMs: int64,
  level: text,
  event: text,
  message: text,
  fields: Type.Record(Type.String(), Type.Unknown()),
});
export const eventsData = Type.Object({
  instanceId: text,
  lastId: int64,
  events: Type.Array(eventData),
});
export const healthData = Type.Object({
  healthy: Type.Boolean(),
  checks: Type.Array(Type.Object({ name: text, healthy: Type.Boolean(), message: nullable(text) })),
});
