// Service values as REST v3 shows them. Every field of Confluent's schemas is given, lists never
// null. Lag that is UNKNOWN is -1 here (clients read the field as an integer, where null would
// become a healthy 0); our own API under /causeway/v1 says null.
import { isSensitiveSetting } from '../config/client-settings.ts';
import { LinkError } from '../link/link-error.ts';
import type {
  LinkStatus,
  MirrorCommandRow,
  MirrorStatus,
  PartitionStatus,
} from '../link/service.ts';
import type { MirrorState } from '../state/records.ts';
import { rowErrorCode } from './errors.ts';

/** Where the request came in, for the `self` links. */
export interface Place {
  /** `http://host:port/kafka/v3` or `.../v3`. */
  readonly base: string;
  readonly clusterId: string;
}

interface Metadata {
  readonly self: string;
  readonly resource_name: string;
}

function metadata(place: Place, kind: string, path: readonly string[]): Metadata {
  const cluster = `${place.base}/clusters/${encodeURIComponent(place.clusterId)}`;
  const self = [cluster, ...path.map(encodeURIComponent)].join('/');
  const name = path.at(-1);
  const crn = `crn:///kafka=${place.clusterId}`;
  return { self, resource_name: name === undefined ? crn : `${crn}/${kind}=${name}` };
}

export function presentList(kind: string, self: string, data: readonly unknown[]): object {
  return { kind, metadata: { self, next: null }, data };
}

export function presentCluster(place: Place): object {
  return {
    kind: 'KafkaCluster',
    metadata: metadata(place, 'kafka', []),
    cluster_id: place.clusterId,
  };
}

type Category = 'PAUSED' | 'IN_ERROR' | 'PENDING' | 'ACTIVE' | 'NOT_APPLICABLE';

const categories: Readonly<Record<MirrorState, Category>> = {
  PENDING_MIRROR: 'PENDING',
  ACTIVE: 'ACTIVE',
  PAUSED: 'PAUSED',
  LINK_PAUSED: 'PAUSED',
  SOURCE_UNAVAILABLE: 'IN_ERROR',
  LINK_FAILED: 'IN_ERROR',
  FAILED: 'IN_ERROR',
  PENDING_STOPPED: 'PENDING',
  PENDING_SYNCHRONIZE: 'PENDING',
  PENDING_SETUP_FOR_RESTORE: 'PENDING',
  PENDING_RESTORE: 'PENDING',
  STOPPED: 'NOT_APPLICABLE',
};

export const mirrorStates: readonly string[] = Object.keys(categories);

function categoryCounts(mirrors: readonly MirrorStatus[]): object[] {
  const counts = new Map<Category, number>();
  for (const mirror of mirrors) {
    const category = categories[mirror.state];
    counts.set(category, (counts.get(category) ?? 0) + 1);
  }
  return [...counts].map(([state_category, count]) => ({ state_category, count }));
}

export function presentLink(
  place: Place,
  status: LinkStatus,
  mirrors: readonly MirrorStatus[],
  options: { includeTasks: boolean },
): object {
  const { record } = status;
  const isBidirectional = record.configs['link.mode'] === 'BIDIRECTIONAL';
  const tasks = status.tasks.map((task) => ({
    task_name: task.name,
    state: task.state,
    errors: task.errors.map(({ code, message }) => ({ error_code: code, error_message: message })),
    last_success_time_ms: task.lastSuccessTimeMs,
  }));
  return {
    kind: 'KafkaLinkData',
    metadata: metadata(place, 'link', ['links', record.name]),
    source_cluster_id: isBidirectional ? null : record.sourceClusterId,
    destination_cluster_id: null,
    remote_cluster_id: isBidirectional ? record.sourceClusterId : null,
    link_name: record.name,
    link_id: record.linkId,
    cluster_link_id: record.linkId,
    topic_names: status.topicNames,
    link_state: status.linkState,
    link_error: status.linkError,
    link_error_message: status.linkErrorMessage,
    ...(options.includeTasks ? { tasks } : {}),
    category_counts: categoryCounts(mirrors),
    last_contact_time_ms: status.lastContactTimeMs,
    last_contact_is_recorded: status.isContactRecorded,
    rpo_seconds: status.rpoSeconds,
    rpo_is_at_most: status.isRpoAtMost,
    rpo_unknown_topics: status.rpoUnknownTopics,
  };
}

/** Sensitive values are write-only: they are shown as empty. */
export function presentLinkConfig(
  place: Place,
  link: string,
  row: { name: string; value: string },
): object {
  const isSensitive = isSensitiveSetting(row.name);
  return {
    kind: 'KafkaLinkConfigData',
    metadata: metadata(place, 'config', ['links', link, 'configs', row.name]),
    cluster_id: place.clusterId,
    name: row.name,
    value: isSensitive ? '' : row.value,
    is_default: false,
    is_read_only: false,
    is_sensitive: isSensitive,
    default: false,
    read_only: false,
    sensitive: isSensitive,
    source: 'DYNAMIC_CLUSTER_LINK_CONFIG',
    synonyms: [],
    link_name: link,
  };
}

function presentLags(partitions: readonly PartitionStatus[]): object[] {
  return partitions.map((partition) => ({
    partition: partition.partition,
    lag: partition.lagRecords ?? -1,
    last_source_fetch_offset: partition.mirrorEnd,
  }));
}

export function presentMirror(
  place: Place,
  status: MirrorStatus,
  options: { includeTransitionErrors: boolean },
): object {
  const errors = status.blocking.map(({ code, message }) => ({
    error_code: code,
    error_message: message,
  }));
  return {
    kind: 'KafkaMirrorData',
    metadata: metadata(place, 'mirror', ['links', status.link, 'mirrors', status.name]),
    link_name: status.link,
    mirror_topic_name: status.name,
    source_topic_name: status.sourceTopic,
    num_partitions: status.partitions.length,
    mirror_lags: presentLags(status.partitions),
    mirror_status: status.state,
    mirror_topic_error: status.error?.code ?? 'NO_ERROR',
    state_time_ms: status.stateTimeMs,
    mirror_state_transition_errors: options.includeTransitionErrors ? errors : [],
  };
}

export function presentCommandRow(place: Place, link: string, row: MirrorCommandRow): object {
  return {
    kind: 'AlterMirrorsData',
    metadata: metadata(place, 'mirror', ['links', link, 'mirrors', row.topic]),
    mirror_topic_name: row.topic,
    error_code: row.error === null ? null : rowErrorCode(row.error),
    error_message: row.error?.message ?? null,
    mirror_lags: presentLags(row.partitions),
    messages_truncated: null,
    partition_level_truncation_data: [],
  };
}

/** Names the link that a request is about, as Confluent's own messages do. */
export function missingLink(name: string): LinkError {
  return new LinkError(
    'LINK_NOT_FOUND',
    `The cluster link doesn't exist: Cluster link '${name}' does not exist.`,
  );
}
