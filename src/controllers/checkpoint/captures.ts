import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { leastHeldSeconds } from "../../api/pod/disruption.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { hasBegun, isPauseCheckpoint, isUnfinished } from "../../api/state/checkpoint.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import type { Clock } from "../../base/clock.ts";
import { keyOf } from "../../kube/object.ts";
import { type Attempt, Attempts } from "../cluster/attempts.ts";
import type { ClusterParts } from "../cluster/controller-parts.ts";
import { orderOf } from "../cluster/move-facts.ts";
import { disruptionCheckpointName } from "../cluster/pause-checkpoint.ts";
import { type WaitingCapture, planCaptures } from "../cluster/plan-moves.ts";

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

interface CaptureTurnsOptions extends Pick<ClusterParts, "informers" | "cache"> {
  captures: Pick<Captures, "ofPod">;
  /** How many sandboxes of a node are captured at the same time. @default 4 */
  atOnce?: number | undefined;
}

/** For a change that nothing announces. */
const againMilliseconds = 5_000;

/** Orders and bounds the captures of sandboxes whose Pods are ended, so that those of a drained node share its disk and the store. */
export class CaptureTurns {
  readonly #options: CaptureTurnsOptions;
  readonly #unfinished: (value: "pause") => Checkpoint[];

  constructor(options: CaptureTurnsOptions) {
    this.#options = options;
    this.#unfinished = options.informers.checkpoints.store.index((one) =>
      isUnfinished(one) && isPauseCheckpoint(one) ? ["pause"] : [],
    );
  }

  /** How long a capture waits for its turn at most. Undefined: it begins, and nothing may be awaited before that. */
  waitMilliseconds({ metadata }: Checkpoint, now: Date): number | undefined {
    const { waiting, begins } = this.#turns(now);
    const own = waiting.find(({ key }) => key === keyOf(metadata));
    if (own === undefined || begins.has(own.key)) return undefined;
    return Math.min(againMilliseconds, own.latestInMilliseconds);
  }

  /** The keys of the checkpoints whose turn it is. */
  next(now: Date): string[] {
    return [...this.#turns(now).begins];
  }

  #turns(now: Date): { waiting: readonly WaitingCapture[]; begins: ReadonlySet<string> } {
    const all = this.#unfinished("pause").flatMap((checkpoint) => this.#captureOf(checkpoint, now));
    const waiting = all.filter(({ isRunning }) => !isRunning);
    const running = all.filter(({ isRunning }) => isRunning).map(({ namespace, place }) => ({ namespace, ...place }));
    const { atOnce } = this.#options;
    return { waiting, begins: planCaptures({ waiting, running, atOnce }) };
  }

  #captureOf(checkpoint: Checkpoint, now: Date): (WaitingCapture & { isRunning: boolean })[] {
    const { cache, captures } = this.#options;
    const { namespace, name, uid } = checkpoint.metadata;
    const ofSandbox = `${namespace}/${checkpoint.spec.sandboxName}`;
    const [sandbox, pod] = [cache.sandbox(ofSandbox), cache.pod(ofSandbox)];
    if (sandbox === undefined || pod === undefined || name !== disruptionCheckpointName(sandbox)) return [];
    const { latest, end } = heldTimes(pod);
    // The cell of a silent node keeps nobody waiting.
    if (end < now.getTime()) return [];
    return [
      {
        ...orderOf(sandbox, pod),
        key: keyOf(checkpoint.metadata),
        place: { nodeName: pod.spec.nodeName ?? "" },
        latestInMilliseconds: latest - now.getTime(),
        isRunning: hasBegun(checkpoint) || captures.ofPod(pod.metadata.uid) === uid,
      },
    ];
  }
}

/** Until when the cell holds the end of its Pod, and when half of that time has passed. */
function heldTimes({ metadata, spec }: Pod): { latest: number; end: number } {
  const { deletionTimestamp, deletionGracePeriodSeconds } = metadata;
  const graceSeconds = deletionGracePeriodSeconds ?? spec.terminationGracePeriodSeconds;
  if (deletionTimestamp === undefined || graceSeconds === undefined) return { latest: Infinity, end: Infinity };
  const beginsAt = Date.parse(deletionTimestamp) - graceSeconds * 1000;
  const heldMilliseconds = leastHeldSeconds(graceSeconds) * 1000;
  return { latest: beginsAt + heldMilliseconds / 2, end: beginsAt + heldMilliseconds };
}
