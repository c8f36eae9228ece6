import type { VolumeClaim } from "../api/pod/volume-claims.ts";
import type { CheckpointPart, Consistency } from "../api/kinds/checkpoint.ts";
import type { VolumeSelection } from "../api/kinds/checkpoint-spec.ts";
import type { Contents } from "../api/schema/metadata.ts";
import { systemClock } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { type Deadline, within } from "../base/within.ts";
import type { Backend, Capture, CaptureRequest, CheckpointName, SandboxHolds } from "./backend.ts";
import type { Backends, PartPlan } from "./backends.ts";
import { recordOf } from "./checkpoint-parts.ts";
import type { CheckpointRecord } from "./checkpoint-record.ts";
import type { SandboxRef } from "./runtime.ts";

export interface PartsCapture extends Omit<CaptureRequest, "contents" | "held"> {
  /** Empty: only volumes. */
  contents: Contents;
  volumes: VolumeSelection;
  /** How consistent volumes are with each other, and with memory and files. */
  consistency: Consistency;
  /** Whether the capture fails if `atomic` cannot be kept. */
  requireAtomic: boolean;
  /** The commands of `quiesced`. */
  quiesce: Quiesce;
}

/** The commands in the sandbox around a capture. Each reports a failure that does not end the capture. */
export interface Quiesce {
  before: () => Promise<string | undefined>;
  after: () => Promise<string | undefined>;
}

/** A sandbox is never paused longer for the capture of its volumes. Its cell resumes it without a call. */
const longestPauseMilliseconds = 30_000;

/**
 * Captures a sandbox part by part, and then waits until all parts are durable: a cloud uploads a volume for minutes after its
 * content is fixed. A repeated call finds the parts that the first one captured.
 * @throws RametError `InvalidArgument` for a volume that the sandbox does not have; `NotAtomic`; as {@link Backends.forContents},
 *   `SandboxHolds.hold` and `Backend.capture` do
 */
export async function captureParts(
  backends: Backends,
  { volumes, consistency, requireAtomic, quiesce, ...given }: PartsCapture,
): Promise<CheckpointRecord> {
  const source = { ...given.source, claims: selectedClaims(given.source, volumes) };
  const plans = await backends.forContents(given.contents, source);
  const request = { ...given, source };
  const work = { backends, plans, request, requireAtomic, quiesce };
  const { captured, kept, ...details } = await capturedWith(consistency, work);
  const durable = await Promise.all(
    captured.map(async ({ backend, capture }) => {
      if (capture.isDurable) return capture;
      return { ...capture, parts: (await backend.whenReady(request.name)).parts };
    }),
  );
  return recordOf([
    ...durable.map((capture) => withConsistency(capture, kept)),
    { parts: [], isDurable: true, details },
  ]);
}

/** The parts of one moment are atomic. Otherwise only those of the volumes have what was requested for them. */
function withConsistency(capture: Capture, kept: Consistency): Capture {
  const isCovered = ({ contents }: CheckpointPart) => kept === "atomic" || contents.includes("volumes");
  if (kept === "crash") return capture;
  return { ...capture, parts: capture.parts.map((part) => (isCovered(part) ? { ...part, consistency: kept } : part)) };
}

type Request = Omit<CaptureRequest, "contents">;

interface Work {
  backends: Backends;
  plans: readonly PartPlan[];
  request: Request;
  requireAtomic: boolean;
  quiesce: Quiesce;
}

interface Captured {
  captured: { backend: Backend; capture: Capture }[];
  kept: Consistency;
  /** Absent: the capture of memory and files reports it. */
  pausedMilliseconds?: number;
  consistencyNote?: string;
}

async function capturedWith(wanted: Consistency, work: Work): Promise<Captured> {
  const { backends, plans, request, requireAtomic } = work;
  const hasNoVolumes = request.source.claims.length === 0;
  if (wanted === "quiesced") return quiesced(work);
  if (wanted === "crash" || hasNoVolumes) return { captured: await inOrder(plans, request), kept: "crash" };
  const holds = backends.holds();
  if (wanted === "sync") {
    await holds.sync(request.source, request.signal);
    return { captured: await inOrder(plans, request), kept: wanted };
  }
  try {
    return await inOnePause(holds, work);
  } catch (thrown) {
    const error = RametError.from(thrown);
    // The cell has resumed the sandbox because the volumes took too long.
    if (error.code !== "Timeout") throw error;
    if (requireAtomic) {
      await removeAll(plans, request.name).catch(() => undefined);
      throw notAtomic(request.source, error);
    }
    return { captured: await inOrder(plans, request), kept: "crash", consistencyNote: error.message };
  }
}

/** Captures between two commands. The second one runs in any case, because programs may wait for it. */
async function quiesced({ backends, plans, request, quiesce }: Work): Promise<Captured> {
  const notes: string[] = [];
  const note = (text: string | undefined): void => {
    if (text !== undefined) notes.push(text);
  };
  let captured: Captured["captured"];
  try {
    note(await quiesce.before());
    await backends.holds().sync(request.source, request.signal);
    captured = await inOrder(plans, request);
  } catch (error) {
    await quiesce.after().catch(() => undefined);
    throw error;
  }
  note(await quiesce.after());
  const isKept = notes.length === 0;
  return { captured, kept: isKept ? "quiesced" : "sync", ...(!isKept && { consistencyNote: notes.join("; ") }) };
}

/**
 * Captures all parts while the sandbox is paused. An earlier attempt that has captured memory and files had captured the volumes in
 * the same pause, so its parts are used together. Otherwise what it has left is of another moment, and is removed first.
 */
async function inOnePause(holds: SandboxHolds, { plans, request }: Work): Promise<Captured> {
  const { name, source, signal } = request;
  const volumes = plans.filter(({ contents }) => contents.includes("volumes"));
  const others = plans.filter((plan) => !volumes.includes(plan));
  for (const { backend } of others)
    if ((await backend.has?.(name)) === true) return { captured: await inOrder(plans, request), kept: "atomic" };
  await removeAll(volumes, name);
  await holds.hold({ name, source, milliseconds: longestPauseMilliseconds, signal });
  try {
    const captured = await within(pauseDeadline(request), (ended) => inOrder(volumes, { ...request, signal: ended }));
    captured.push(...(await inOrder(others, { ...request, held: true })));
    const { pausedMilliseconds } = await holds.release({ name, source });
    // The capture of memory and files has taken the pause over, and reports it.
    if (others.length === 0 && pausedMilliseconds === undefined) throw resumedEarly();
    return { captured, kept: "atomic", ...defined({ pausedMilliseconds }) };
  } catch (error) {
    // If the cell cannot be reached, it resumes the sandbox when its time is over.
    await holds.release({ name, source }).catch(() => undefined);
    throw error;
  }
}

function pauseDeadline({ signal }: Request): Deadline {
  const what = "Capturing the volumes while the sandbox is paused";
  return { clock: systemClock, milliseconds: longestPauseMilliseconds, what, signal };
}

function resumedEarly(): RametError {
  return new RametError("Timeout", "the sandbox was resumed before its volumes were captured");
}

async function removeAll(plans: readonly PartPlan[], name: CheckpointName): Promise<void> {
  await Promise.all(plans.map(({ backend }) => backend.remove(name)));
}

async function inOrder(plans: readonly PartPlan[], request: Request): Promise<Captured["captured"]> {
  const captured: Captured["captured"] = [];
  for (const { backend, contents } of plans)
    captured.push({ backend, capture: await backend.capture({ ...request, contents }) });
  return captured;
}

function notAtomic({ name }: SandboxRef, cause: RametError): RametError {
  const why = `The sandbox ${name} was not captured, because it cannot be atomic: ${cause.message}`;
  const hint = cause.hint ?? "Leave out requireAtomic, or use volumes whose driver captures them faster";
  return new RametError("NotAtomic", why, { hint, cause });
}

function selectedClaims({ name, claims }: SandboxRef, selection: VolumeSelection): readonly VolumeClaim[] {
  if (selection === "none") return [];
  if (selection === "all") return claims;
  const known = claims.map(({ volume }) => volume);
  const unknown = selection.filter((volume) => !known.includes(volume));
  if (unknown.length === 0) return claims.filter(({ volume }) => selection.includes(volume));
  const has = known.length === 0 ? "none" : known.join(", ");
  throw new RametError(
    "InvalidArgument",
    `The sandbox ${name} has no volume ${unknown.join(", ")} that is a PersistentVolumeClaim; it has ${has}`,
    { hint: "Name volumes of its Pod in spec.volumes, or omit that for all of them" },
  );
}
