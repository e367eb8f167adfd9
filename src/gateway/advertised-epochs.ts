// The highest leader epoch that metadata answers gave for each promoted partition, as far as seen
// since the start. Owns nothing else. Needed because a committed epoch above the advertised one
// stalls consumers in silence. Invariant: what `highest` returns was advertised, or is the first
// epoch of the native extent.
import type { TopicDirectory } from './topic-directory.ts';
import { type FactPlace, TopicFacts } from './topic-facts.ts';

export class AdvertisedEpochs {
  readonly #highest = new TopicFacts<number>();

  note(directory: TopicDirectory, place: FactPlace, epoch: number): void {
    if (epoch > (this.#highest.get(place) ?? -1)) this.#highest.set(directory, place, epoch);
  }

  highest(place: FactPlace, firstEpoch: number): number {
    return Math.max(firstEpoch, this.#highest.get(place) ?? -1);
  }
}
