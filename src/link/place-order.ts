// The order in which people read offsets of groups: by group, topic and partition.

interface GroupPlace {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
}

export function inPlaceOrder<Row extends GroupPlace>(rows: readonly Row[]): readonly Row[] {
  return [...rows].sort(
    (left, right) =>
      compared(left.group, right.group) ||
      compared(left.topic, right.topic) ||
      left.partition - right.partition,
  );
}

function compared(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
