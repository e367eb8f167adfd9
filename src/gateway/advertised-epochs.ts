// The highest leader epoch that metadata answers gave for each promoted partition, as far as seen
// since the start. Owns nothing else. Needed because a committed epoch above the advertised one
// stalls consumers in silence. Invariant: what `highest` returns was advertised, or is the first
// epoch of the native extent.

export class AdvertisedEpochs {
  readonly #highest = new Map<string, Map<number, number>>();

  note(topicId: string, partition: number, epoch: number): void {
    let partitions = this.#highest.get(topicId);
    if (partitions === undefined) {
      partitions = new Map();
      this.#highest.set(topicId, partitions);
    }
    if (epoch > (partitions.get(partition) ?? -1)) partitions.set(partition, epoch);
  }

  highest(topicId: string, partition: number, firstEpoch: number): number {
    return Math.max(firstEpoch, this.#highest.get(topicId)?.get(partition) ?? -1);
  }
}
