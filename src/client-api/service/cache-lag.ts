import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { ServiceParts } from "./parts.ts";

/** How long an object that the cache does not have is awaited before it is said not to exist. Longer than a watch lags behind. */
export const lagMilliseconds = 200;
/** How long an object is awaited that this server has written. */
const writtenMilliseconds = 500;
const retryMilliseconds = 25;

/**
 * What `find` returns. Another replica may have written it a moment ago, so `find` is called again for a moment.
 * @throws RametError what `find` throws, at once unless it is `NotFound` or `CheckpointNotReady`
 */
export async function awaitInCache<T>(
  { clock }: Pick<ServiceParts, "clock">,
  find: () => T,
  signal: AbortSignal,
): Promise<T> {
  const deadline = clock.monotonicMilliseconds() + lagMilliseconds;
  for (;;) {
    try {
      return find();
    } catch (error) {
      const isUnknown = ["NotFound", "CheckpointNotReady"].includes(RametError.from(error).code);
      if (!isUnknown || clock.monotonicMilliseconds() >= deadline) throw error;
    }
    await delay(clock, retryMilliseconds, signal);
  }
}

/** Waits for a moment until the cache has a sandbox, so that the next request finds it. */
export async function untilSandboxKnown(
  { sandboxes }: Pick<ServiceParts, "sandboxes">,
  written: Sandbox,
  signal: AbortSignal,
): Promise<Sandbox> {
  const { uid, name } = written.metadata;
  const options = { what: `Looking for the sandbox ${name}`, timeoutMilliseconds: writtenMilliseconds, signal };
  return sandboxes.until(uid, (sandbox) => sandbox, options).catch(() => written);
}

/** Waits for a moment until the cache has the version, the tags and the builds of a named snapshot, which the next request may use. */
export async function untilSnapshotKnown(
  { snapshots }: Pick<ServiceParts, "snapshots">,
  written: NamedSnapshot,
  signal: AbortSignal,
): Promise<void> {
  const { uid, name } = written.metadata;
  const isKnown = (cached: NamedSnapshot | undefined): true | undefined =>
    (cached !== undefined && isShown(written, cached)) || undefined;
  const options = { what: `Waiting for the snapshot ${name}`, timeoutMilliseconds: writtenMilliseconds, signal };
  await snapshots.until(uid, isKnown, options).catch((error: unknown) => {
    // Somebody else may have changed it again.
    if (RametError.from(error).code !== "Timeout") throw error;
  });
}

function isShown(written: NamedSnapshot, cached: NamedSnapshot): boolean {
  const noted = [annotations.tags, annotations.clientBuilds] as const;
  const isSame = noted.every((name) => written.metadata.annotations?.[name] === cached.metadata.annotations?.[name]);
  return isSame && (cached.status?.version ?? 0) >= (written.status?.version ?? 0);
}
