import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import type { Clock } from "../../base/clock.ts";
import { keyOf } from "../../kube/object.ts";
import { type Attempt, Attempts } from "../cluster/attempts.ts";

/** The Pod and the data that a checkpoint occupies when it starts. */
export interface Occupied {
  podUid?: string;
  /** The namespace and id of the stored data that the checkpoint is going to share. */
  data?: string;
}

/** A checkpoint fails when its cell has been unreachable for this long. */
const unreachableMilliseconds = 30_000;

/** The checkpoints that this process takes, by the UID of the Checkpoint. The end of a call requeues its Checkpoint. */
export class Captures {
  readonly #enqueue: (key: string) => void;
  readonly #calls: Attempts<CheckpointRecord>;
  readonly #occupied = new Map<string, Occupied>();

  constructor({ enqueue, ...options }: { clock: Clock; random: () => number; enqueue: (key: string) => void }) {
    this.#enqueue = enqueue;
    this.#calls = new Attempts({ ...options, giveUpAfterMilliseconds: unreachableMilliseconds });
  }

  /** The call that takes the checkpoint. */
  get(uid: string): Attempt<CheckpointRecord> | undefined {
    return this.#calls.get(uid);
  }

  ofPod(podUid: string): string | undefined {
    for (const [uid, occupied] of this.#occupied) if (occupied.podUid === podUid) return uid;
    return undefined;
  }

  /** Whether another checkpoint is going to share the data. */
  shares(data: string, except: string): boolean {
    return [...this.#occupied].some(([uid, occupied]) => uid !== except && occupied.data === data);
  }

  /** Called before the first write of a checkpoint. */
  occupy({ metadata }: Checkpoint, occupied: Occupied): void {
    this.#occupied.set(metadata.uid, occupied);
  }

  start(checkpoint: Checkpoint, call: (signal: AbortSignal) => Promise<CheckpointRecord>): void {
    this.#calls.start(checkpoint.metadata.uid, call, this.#ended(checkpoint));
  }

  /** Makes this call instead of the running one, whose response can no longer come. */
  replace(checkpoint: Checkpoint, call: () => Promise<CheckpointRecord>): void {
    this.#calls.replace(checkpoint.metadata.uid, call, this.#ended(checkpoint));
  }

  /** Ends the wait of a running call. */
  async end({ metadata }: Checkpoint): Promise<void> {
    await this.#calls.end(metadata.uid);
  }

  /** Forgets a checkpoint that has ended, or that does not exist any more. */
  forget({ metadata }: Checkpoint): void {
    this.#calls.forget(metadata.uid);
    this.#occupied.delete(metadata.uid);
  }

  close(): void {
    this.#calls.close();
  }

  #ended(checkpoint: Checkpoint): () => void {
    const { uid } = checkpoint.metadata;
    return () => {
      const occupied = this.#occupied.get(uid);
      // The next checkpoint of the Pod can start. Shared data is needed until the status lists it.
      if (this.get(uid)?.state !== "running" && occupied !== undefined) delete occupied.podUid;
      this.#enqueue(keyOf(checkpoint.metadata));
    };
  }
}
