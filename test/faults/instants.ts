/** Repeatable random instants: prints the seed, and takes it from `RAMET_FAULT_SEED` if set. */
export class Instants {
  readonly seed: number;
  #state: number;

  constructor(seed = Number(process.env["RAMET_FAULT_SEED"] ?? Date.now() % 1_000_000)) {
    this.seed = seed;
    this.#state = seed;
    console.log(`faults: seed ${seed} (RAMET_FAULT_SEED=${seed} repeats the instants)`);
  }

  /** Whole milliseconds in [0, limit). */
  below(limitMilliseconds: number): number {
    // Mulberry32 (Tommy Ettinger, public domain): small, and the same everywhere.
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limitMilliseconds);
  }
}
