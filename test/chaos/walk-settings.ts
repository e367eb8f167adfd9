// What a walk of the sync tasks (task-walk.ts) sets on its link and on its compacted topics.
//
// Owns: the settings. Knows nothing of steps. Invariant: the link's filters match what begins with
// the walk's prefix, or is said of its principal, and nothing else.

/** The broker cleans such a topic as often as it can. */
export const cleanedOften = {
  'cleanup.policy': 'compact',
  'segment.ms': '300',
  'segment.bytes': '1048576',
  'min.cleanable.dirty.ratio': '0.01',
  'max.compaction.lag.ms': '300',
};

export function walkSettings(prefix: string, principal: string): Readonly<Record<string, string>> {
  const topicFilters = [{ name: prefix, patternType: 'PREFIXED', filterType: 'INCLUDE' }];
  const groupFilters = [{ name: prefix, patternType: 'PREFIXED', filterType: 'INCLUDE' }];
  const accessFilter = { principal, operation: 'any', permissionType: 'any' };
  const aclFilters = [{ resourceFilter: { resourceType: 'topic' }, accessFilter }];
  return {
    'auto.create.mirror.topics.enable': 'true',
    'auto.create.mirror.topics.filters': JSON.stringify({ topicFilters }),
    'consumer.offset.sync.enable': 'true',
    'consumer.offset.sync.ms': '300',
    'consumer.offset.group.filters': JSON.stringify({ groupFilters }),
    'topic.config.sync.ms': '500',
    'acl.sync.enable': 'true',
    'acl.sync.ms': '500',
    'acl.sync.mode': 'owned',
    'acl.filters': JSON.stringify({ aclFilters }),
  };
}
