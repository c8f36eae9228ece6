import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { type Followers, untilFound } from "../../kube/followers.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ServiceParts } from "./parts.ts";

/** How long an object that the cache does not have is awaited before it is said not to exist. Longer than a watch lags behind. */
export const lagMilliseconds = 200;
/** How long an object is awaited that this server has written. */
export const writtenMilliseconds = 500;
/** The same for an object that it has created, which no list may lack. */
const createdMilliseconds = 5_000;
/** How long the API server may take to answer before the cache is used instead. */
const readMilliseconds = 1_000;

/**
 * Returns the result of `find`. Another replica may have written the object a moment ago, so an unknown one is awaited for a moment.
 * @throws RametError what `find` throws, at once unless it is `NotFound` or `CheckpointNotReady`
 */
export async function awaitInCache<T>(
  { clock, informers }: Pick<ServiceParts, "clock" | "informers">,
  find: () => T,
): Promise<T> {
  const unlessUnknown = (): { found: T } | undefined => {
    try {
      return { found: find() };
    } catch (error) {
      if (["NotFound", "CheckpointNotReady"].includes(RametError.from(error).code)) return undefined;
      throw error;
    }
  };
  const stores = Object.values(informers).map(({ store }) => store);
  const known = await untilFound(stores, unlessUnknown, { clock, milliseconds: lagMilliseconds });
  return known === undefined ? find() : known.found;
}

/** Waits until the cache has an object that was created, so that the next request finds and lists it, but not for a watch that is broken. */
export function untilKnown<T extends KubeObject>(
  followers: Followers<T>,
  created: T,
  signal: AbortSignal,
  milliseconds = createdMilliseconds,
): Promise<T> {
  return followers
    .until(created.metadata.uid, (cached) => cached, shown(created, signal, milliseconds))
    .catch(() => created);
}

/** Waits for a moment until the cache has the version, the tags and the builds of a named snapshot, which the next request may use. */
export async function untilSnapshotKnown(
  { snapshots }: Pick<ServiceParts, "snapshots">,
  written: NamedSnapshot,
  signal: AbortSignal,
): Promise<void> {
  const noted = [annotations.tags, annotations.clientBuilds] as const;
  const { annotations: own } = written.metadata;
  const isKnown = ({ metadata, status }: NamedSnapshot): boolean =>
    noted.every((name) => own?.[name] === metadata.annotations?.[name]) &&
    (status?.version ?? 0) >= (written.status?.version ?? 0);
  await snapshots
    .until(written.metadata.uid, (cached) => (cached && isKnown(cached)) || undefined, shown(written, signal))
    .catch(unlessTimeout);
}

/** Waits for a moment until the cache shows that an object was deleted, so that the next request does not find it. */
export async function untilShownDeleted<T extends KubeObject>(
  followers: Followers<T>,
  deleted: T,
  signal: AbortSignal,
): Promise<void> {
  const isDeleted = (cached: T | undefined) => cached?.metadata.deletionTimestamp !== undefined || cached === undefined;
  await followers
    .until(deleted.metadata.uid, (cached) => isDeleted(cached) || undefined, shown(deleted, signal))
    .catch(unlessTimeout);
}

function shown({ metadata: { name } }: KubeObject, signal: AbortSignal, timeoutMilliseconds = writtenMilliseconds) {
  return { what: `Waiting for the cache to show ${name}`, timeoutMilliseconds, signal };
}

/** The write was successful in any case, and somebody else may have changed the object again. */
export function unlessTimeout(error: unknown): void {
  if (RametError.from(error).code !== "Timeout") throw error;
}

/**
 * Reads a sandbox from the API server, so that the decisions which follow know what another replica has written a moment ago. While the
 * API server does not respond, they are made from the cache.
 * @throws RametError `NotFound` if it has been deleted
 */
export async function readNewest(parts: NewestParts, known: Sandbox, signal?: AbortSignal): Promise<void> {
  const what = `Reading the sandbox ${known.metadata.name}`;
  const deadline = { clock: parts.clock, milliseconds: readMilliseconds, what, signal };
  await within(deadline, async (either) => {
    for (let tries = 0; tries < mostReads; tries++) if (await readOnce(parts, known, either)) return;
  }).catch((error: unknown) => {
    if (signal?.aborted === true || RametError.from(error).code === "NotFound") throw error;
  });
}

type NewestParts = Pick<ServiceParts, "informers" | "sandboxes" | "writes" | "clock">;

const mostReads = 3;

/** @returns false if the cache has changed meanwhile: what was read may be older */
async function readOnce(parts: NewestParts, known: Sandbox, signal: AbortSignal): Promise<boolean> {
  const { informers, sandboxes, writes } = parts;
  const { uid, name } = known.metadata;
  const version = () => sandboxes.current(uid)?.metadata.resourceVersion;
  const before = version();
  const found = await writes.write(known, async () => {
    const read = await informers.sandboxes.resource.find(known.metadata, { signal });
    if (read?.metadata.uid !== uid) throw new RametError("NotFound", `The sandbox ${name} does not exist`);
    return version() === before ? read : known;
  });
  return found !== known;
}
