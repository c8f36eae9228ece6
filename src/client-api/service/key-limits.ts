import { randomUUID } from "node:crypto";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { keyPartOf } from "../../api/schema/digest.ts";
import { RametError } from "../../base/errors.ts";
import type { Caller } from "../keys/callers.ts";
import type { BegunCapture, ServiceParts } from "./parts.ts";
import { snapshotsOf } from "./snapshots.ts";

type Limited = Pick<Caller, "key" | "namespace" | "limits">;

export interface NewSandboxes {
  /** How many the request creates. @default 1 */
  count?: number;
  /** The UUID of a request that can be repeated, and that creates one. @default new ones */
  requestId?: string | undefined;
}

/**
 * Creates sandboxes within the limit of a key. Requests of this server that the informer does not show yet count too; each further
 * replica can exceed the limit by those that it serves at the same time.
 * @param create gets a UUID for each sandbox
 * @throws RametError `QuotaExceeded`; `Conflict` if another request has the same key
 */
export async function withinSandboxLimit<T>(
  parts: Pick<ServiceParts, "known" | "writes" | "creating">,
  caller: Limited,
  create: (requestIds: readonly string[]) => Promise<T>,
  { count = 1, requestId }: NewSandboxes = {},
): Promise<T> {
  const { creating } = parts;
  const { key, limits } = caller;
  hasEarlier(parts, caller, requestId);
  const ids = requestId === undefined ? Array.from({ length: count }, () => randomUUID()) : [requestId];
  const own = sandboxesOfKey(parts, caller);
  const shown = new Set(own.map(({ metadata }) => metadata.annotations?.[annotations.lock]));
  const hidden = [...creating].filter(([id, owner]) => owner === key && !shown.has(id));
  const added = ids.filter((id) => !shown.has(id) && !creating.has(id));
  const used = own.length + hidden.length;
  if (added.length > 0 && used + added.length > limits.sandboxes) {
    const message = `The API key ${key} has ${used} sandboxes, and may have ${limits.sandboxes}`;
    throw new RametError("QuotaExceeded", message, { hint: "Delete sandboxes that nobody needs" });
  }
  for (const id of added) creating.set(id, key);
  try {
    return await create(ids);
  } finally {
    for (const id of added) creating.delete(id);
  }
}

/** The sandboxes that a key has created. */
export function sandboxesOfKey(
  { known, writes }: Pick<ServiceParts, "known" | "writes">,
  { key, namespace }: Pick<Limited, "key" | "namespace">,
): Sandbox[] {
  const newest = known.sandboxesIn(namespace).map((sandbox) => writes.latest(sandbox));
  return newest.filter(({ metadata }) => metadata.annotations?.[annotations.owner] === key);
}

type SnapshotParts = Pick<ServiceParts, "known" | "capturing">;

/**
 * The size of a snapshot is known afterwards, so the last one can exceed the limit. A capture in progress counts as much as the
 * largest snapshot of the key.
 * @returns the Checkpoints of the key that the informer shows; none if the key has no limit
 * @throws RametError `QuotaExceeded`
 */
export function checkSnapshotLimit(
  { known, capturing }: SnapshotParts,
  { key, namespace, limits }: Limited,
): readonly Checkpoint[] {
  if (limits.snapshotBytes === Infinity) return [];
  const { sizes, unfinished, checkpoints } = snapshotsOf({ known }, namespace, key);
  const waiting = unfinished + hidden(capturing, key, checkpoints);
  const used = sizes.reduce((sum, size) => sum + size, 0);
  const expected = waiting * (sizes.length === 0 ? firstSnapshotBytes : Math.max(...sizes));
  if (used + expected < limits.snapshotBytes) return checkpoints;
  const more = waiting === 0 ? "" : `, ${waiting} more are being captured`;
  const message = `The snapshots of the API key ${key} have ${used} bytes${more}, and may have ${limits.snapshotBytes}`;
  throw new RametError("QuotaExceeded", message, { hint: "Delete snapshots that nobody needs" });
}

/**
 * Checks the limit before a capture, which counts from now on, unless an earlier attempt of the request has made it.
 * @throws RametError `QuotaExceeded`; `Conflict` if another request has the same key
 */
export function takeSnapshot(
  parts: SnapshotParts & Pick<ServiceParts, "clock">,
  caller: Limited,
  requestId?: string,
): void {
  if (hasEarlier(parts, caller, requestId)) return;
  const checkpoints = checkSnapshotLimit(parts, caller);
  if (caller.limits.snapshotBytes === Infinity) return;
  const capture = { owner: caller.key, before: new Set(checkpoints.map(({ metadata }) => metadata.uid)) };
  parts.capturing.add(capture);
  parts.clock.schedule(untilShownMilliseconds, () => parts.capturing.delete(capture));
}

/** Whether an earlier attempt of a request has created something. @throws RametError `Conflict` if another request has the same key */
function hasEarlier(
  { known, creating }: Pick<ServiceParts, "known"> & Partial<Pick<ServiceParts, "creating">>,
  { key, namespace }: Limited,
  requestId: string | undefined,
): boolean {
  if (requestId === undefined) return false;
  const made = [...known.sandboxesIn(namespace), ...known.checkpointsIn(namespace)]
    .filter(({ metadata }) => metadata.annotations?.[annotations.owner] === key)
    .map(({ metadata }) => metadata.annotations?.[annotations.lock] ?? "");
  const same = [...made, ...(creating?.keys() ?? [])].filter((id) => keyPartOf(id) === keyPartOf(requestId));
  if (same.some((id) => id !== requestId))
    throw new RametError("Conflict", "The Idempotency-Key was used for another request", {
      hint: "Send a new key, or repeat the same request",
    });
  return made.includes(requestId);
}

/** How many captures the informer does not show yet: each Checkpoint that appeared after one began is one of them. */
function hidden(capturing: ReadonlySet<BegunCapture>, key: string, checkpoints: readonly Checkpoint[]): number {
  const shown = new Set<string>();
  const isHidden = ({ owner, before }: BegunCapture): boolean => {
    if (owner !== key) return false;
    const own = checkpoints.find(({ metadata: { uid } }) => !before.has(uid) && !shown.has(uid));
    if (own !== undefined) shown.add(own.metadata.uid);
    return own === undefined;
  };
  return [...capturing].filter(isHidden).length;
}

/** A key whose first captures are in progress has no sizes yet. */
const firstSnapshotBytes = 1024 ** 3;
/** The informer shows a capture sooner. */
const untilShownMilliseconds = 1_000;
