import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { leastHeldSeconds } from "../../api/pod/disruption.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { hasBegun, isPauseCheckpoint, isUnfinished } from "../../api/state/checkpoint.ts";
import { keyOf } from "../../kube/object.ts";
import type { ClusterParts } from "../cluster/controller-parts.ts";
import { orderOf } from "../cluster/move-facts.ts";
import { disruptionCheckpointName } from "../cluster/pause-checkpoint.ts";
import { planCaptures, type WaitingCapture } from "../cluster/plan-moves.ts";
import type { Captures } from "./captures.ts";

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
