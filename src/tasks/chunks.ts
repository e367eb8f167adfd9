// A list cut into parts of a bounded size, for requests that are bounded. Pure.

export function chunks<Item>(items: readonly Item[], size: number): Item[][] {
  const result: Item[][] = [];
  for (let index = 0; index < items.length; index += size) {
    result.push(items.slice(index, index + size));
  }
  return result;
}

export interface ChunkBounds<Item> {
  readonly itemsMax: number;
  /** Of the weights in one part; an item that is heavier by itself has a part of its own. */
  readonly weightMax: number;
  readonly weightOf: (item: Item) => number;
}

export function weighedChunks<Item>(
  items: readonly Item[],
  { itemsMax, weightMax, weightOf }: ChunkBounds<Item>,
): Item[][] {
  const result: Item[][] = [];
  let part: Item[] = [];
  let weight = 0;
  for (const item of items) {
    const own = weightOf(item);
    if (part.length > 0 && (part.length >= itemsMax || weight + own > weightMax)) {
      result.push(part);
      part = [];
      weight = 0;
    }
    part.push(item);
    weight += own;
  }
  if (part.length > 0) result.push(part);
  return result;
}
