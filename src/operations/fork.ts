import type { Checkpoint, CheckpointManifest } from "../api/kinds/checkpoint.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { accessOf } from "../api/egress/effective-egress.ts";
import { annotations } from "../api/names/labels.ts";
import { defined } from "../base/defined.ts";
import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import { awaitSandbox, type Goal } from "./await-sandbox.ts";
import { untilCaptured, untilCapturing } from "./capture.ts";
import { hasWaitEnded, type Objects, type Settled, type Wait } from "./objects.ts";

/** The time limit applies to the checkpoint, and then to the clones. */
export interface Fork extends Wait {
  /** The capture of the source, with its memory. */
  checkpoint: CheckpointManifest;
  count: number;
  /** Creates one clone, numbered from 0. */
  clone: (checkpoint: Checkpoint, at: number) => Promise<Sandbox>;
  /** Whether the clones can be created while the checkpoint is captured. They are then ready earlier. */
  isEarly: (checkpoint: Checkpoint) => boolean;
  goal: Goal;
  /** Which sandboxes are deleted: those that cannot reach the goal, or also those for which the wait has ended. @default none */
  discards?: "failed" | "unfinished";
  /** Called with the clones that will still become ready, when the wait for the capture is given up. */
  onGivenUp?: (clones: readonly Sandbox[]) => void;
  /** Called if something that nobody needs any more cannot be deleted. */
  onOrphan: (object: Sandbox | Checkpoint, error: RametError) => void;
}

/** `isOver`: the clone is finished; otherwise the controllers are still working on it. */
export type CloneResult = { object: Sandbox } | { failure: RametError; isOver: boolean };

export interface Forked {
  checkpoint: Checkpoint;
  clones: CloneResult[];
}

/**
 * Captures a sandbox once and creates clones of it, which succeed or fail independently. Clones that are created before the capture
 * has ended become ready even if this process ends. The checkpoint is left to the caller, unless it fails.
 * @returns why the capture failed, or its clones
 * @throws RametError `Timeout` or `Canceled` during the capture
 */
export async function fork(objects: Objects, request: Fork): Promise<Settled<Forked>> {
  const created = await objects.checkpoints.create(request.checkpoint, request.signal);
  const made: CloneResult[] = [];
  let captured: Settled<Checkpoint>;
  try {
    const started = await untilCapturing(objects, created, request);
    if (started.status?.phase === "Creating" && request.isEarly(started))
      made.push(...(await clones(started, request)));
    captured = await untilCaptured(objects, started, request);
  } catch (error) {
    if (request.discards !== undefined) await removeAll(objects, [...clonesIn(made), created], request);
    else request.onGivenUp?.(clonesIn(made));
    throw error;
  }
  if ("failure" in captured) {
    // The clones of a failed capture can never start.
    await removeAll(objects, [...clonesIn(made), created], request);
    return captured;
  }
  const checkpoint = captured.object;
  const all = made.length > 0 ? made : await clones(checkpoint, request);
  const results = await Promise.all(all.map((one) => follow(objects, one, request)));
  return { object: { checkpoint, clones: results } };
}

/**
 * The annotations that a clone takes from its source: they limit who can reach its ports, and what it can reach.
 * @param others further ones
 */
export function inherited({ metadata }: Sandbox, others: readonly string[] = []): Record<string, string> {
  const limits = [
    annotations.publicPorts,
    annotations.clientServices,
    annotations.requestHost,
    annotations.httpsPorts,
    annotations.http2Ports,
    annotations.egress,
  ];
  const kept = Object.fromEntries([...limits, ...others].map((name) => [name, metadata.annotations?.[name]]));
  const isOffline = accessOf(metadata).some(([, value]) => value !== undefined);
  return defined({ ...kept, ...(isOffline && { [annotations.egress]: noEgress }) });
}

/** Other keys than those of Ramet cannot be set on a sandbox of a set. */
const noEgress = JSON.stringify({ default: "deny" });

export function clonesIn(results: readonly CloneResult[]): Sandbox[] {
  return results.flatMap((result) => ("object" in result ? [result.object] : []));
}

function clones(checkpoint: Checkpoint, { count, clone }: Fork): Promise<CloneResult[]> {
  const create = (_: unknown, at: number): Promise<CloneResult> =>
    clone(checkpoint, at).then(
      (object) => ({ object }),
      (error: unknown) => {
        const failure = RametError.from(error);
        return { failure, isOver: !failure.retryable && !withoutAnswer.has(failure.code) };
      },
    );
  return Promise.all(Array.from({ length: count }, create));
}

/** After these errors it is unknown whether the sandbox was created. */
const withoutAnswer: ReadonlySet<ErrorCode> = new Set(["Canceled", "Timeout", "Unavailable"]);

async function follow(objects: Objects, made: CloneResult, request: Fork): Promise<CloneResult> {
  if ("failure" in made) return made;
  const { goal, timeoutMilliseconds, signal, discards } = request;
  const result = await awaitSandbox(objects, made.object, { goal, isNew: true, timeoutMilliseconds, signal }).then(
    (settled): CloneResult => ("failure" in settled ? { ...settled, isOver: true } : settled),
    (error: unknown): CloneResult => {
      const isOver = discards === "unfinished" || (discards === "failed" && !hasWaitEnded(error));
      return { failure: RametError.from(error), isOver };
    },
  );
  if ("failure" in result && result.isOver && discards !== undefined) await removeAll(objects, [made.object], request);
  return result;
}

/** Also after an interruption. */
async function removeAll(
  { sandboxes, checkpoints }: Objects,
  unneeded: readonly (Sandbox | Checkpoint)[],
  { onOrphan }: Fork,
): Promise<void> {
  const remove = (object: Sandbox | Checkpoint): Promise<boolean> =>
    object.kind === "Sandbox" ? sandboxes.remove(object) : checkpoints.remove(object);
  await Promise.all(
    unneeded.map((object) =>
      remove(object).catch((error: unknown) => {
        onOrphan(object, RametError.from(error));
      }),
    ),
  );
}
