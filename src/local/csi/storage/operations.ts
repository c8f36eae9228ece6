import { RametError } from "../../../base/errors.ts";

/** The objects of an operation: it changes one volume, snapshot or group, and may read others. */
export interface Use {
  changes: string;
  reads?: string | readonly string[] | undefined;
}

/**
 * Refuses an operation on a volume or snapshot while another one uses it. A caller repeats a refused request, and its first
 * request may still run: a copy continues when its caller has given up.
 */
export class Operations {
  readonly #changed = new Set<string>();
  readonly #readers = new Map<string, number>();

  /** @throws RametError `Conflict` immediately, if another operation uses the same */
  async run<T>({ changes, reads }: Use, work: () => Promise<T>): Promise<T> {
    if (this.#changed.has(changes) || this.#readers.has(changes)) throw inProgress(changes);
    const read = reads === undefined ? [] : [reads].flat();
    const busy = read.find((id) => this.#changed.has(id));
    if (busy !== undefined) throw inProgress(busy);
    this.#changed.add(changes);
    for (const id of read) this.#readers.set(id, (this.#readers.get(id) ?? 0) + 1);
    try {
      return await work();
    } finally {
      this.#changed.delete(changes);
      for (const id of read) this.#release(id);
    }
  }

  #release(id: string): void {
    const left = (this.#readers.get(id) ?? 0) - 1;
    if (left > 0) this.#readers.set(id, left);
    else this.#readers.delete(id);
  }
}

function inProgress(id: string): RametError {
  return new RametError("Conflict", `The request is refused: another operation on ${id} is in progress`, {
    retryable: true,
    hint: "Repeat the request",
  });
}
