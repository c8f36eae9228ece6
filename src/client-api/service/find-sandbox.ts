import { clientSandboxId } from "../../api/pod/client-environment.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { lagMilliseconds, unlessTimeout, untilKnown } from "./cache-lag.ts";
import type { ServiceParts } from "./parts.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { labels } from "../../api/names/labels.ts";
import { isAutomatic, isPauseCheckpoint, isUnfinished } from "../../api/state/checkpoint.ts";
import { isMoving, pauseFailure, sandboxState } from "../../api/state/sandbox.ts";

/** The id of a sandbox for clients. UIDs are not reused, and nobody can guess one. */
export function sandboxIdOf({ metadata }: Pick<Sandbox, "metadata">): string {
  return clientSandboxId(metadata.uid);
}

/** The UID that an id contains, with or without dashes; undefined if it is none. */
export function uidOf(id: string): string | undefined {
  const digits = id.toLowerCase().replaceAll("-", "");
  if (!/^[0-9a-f]{32}$/.test(digits)) return undefined;
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/**
 * Finds a sandbox of a namespace by its id, or by `<namespace>--<name>`. Another replica may have created it a moment ago, so an
 * unknown id is awaited for a moment.
 * @throws RametError `NotFound`, also for sandboxes of other namespaces and those that clients do not see
 */
export async function findSandbox(
  { informers, writes, sandboxes }: ServiceParts,
  namespace: string,
  id: string,
  signal: AbortSignal,
): Promise<Sandbox> {
  const uid = uidOf(id);
  const prefix = `${namespace}--`;
  const named = id.startsWith(prefix)
    ? informers.sandboxes.store.get(`${namespace}/${id.slice(prefix.length)}`)
    : undefined;
  const options = { what: "Looking for the sandbox", timeoutMilliseconds: lagMilliseconds, signal };
  const found =
    uid === undefined
      ? named && writes.latest(named)
      : await sandboxes.until(uid, (sandbox) => sandbox, options).catch(unlessTimeout);
  if (found?.metadata.namespace === namespace && isForClients(found)) return found;
  throw unknown(id);
}

/**
 * Finds a sandbox of a namespace by its name. One that the cache does not have yet is read from the API server.
 * @throws RametError `NotFound`, also for those that clients do not see
 */
export async function findSandboxByName(
  { informers, writes, sandboxes }: ServiceParts,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<Sandbox> {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) throw unknown(name);
  const cached = informers.sandboxes.store.get(`${namespace}/${name}`);
  const found = cached ?? (await informers.sandboxes.resource.find({ namespace, name }, { signal }));
  if (found === undefined || !isForClients(found)) throw unknown(name);
  return cached === undefined ? untilKnown(sandboxes, found, signal) : writes.latest(cached);
}

export function unknown(id: string): RametError {
  return new RametError("NotFound", `The sandbox ${id.slice(0, 80)} does not exist`);
}

/** The state of a sandbox for its clients. `ended`: it failed or exited, and nothing brings it back but a rollback. */
export type ClientState = "starting" | "running" | "snapshotting" | "pausing" | "paused" | "ended" | "killing";

/** @param checkpoints those of the sandbox */
export function stateOf(sandbox: Sandbox, checkpoints: readonly Checkpoint[] = []): ClientState {
  if (sandbox.metadata.deletionTimestamp !== undefined) return "killing";
  const { is } = sandboxState(sandbox);
  if (is === "ended") return "ended";
  // After a failed pause it runs, but nothing pauses it again before it is resumed.
  if (sandbox.spec.paused === true)
    return is === "paused" || pauseFailure(sandbox) !== undefined ? "paused" : "pausing";
  // Gateways let requests wait for one that continues in another Pod.
  if (is === "starting") return isMoving(sandbox) ? "running" : "starting";
  return checkpoints.some(isCapturing) ? "snapshotting" : "running";
}

/** Whether a sandbox is being captured for a client. The checkpoints of pauses belong to the pause, and clients need not know automatic ones. */
export function isCapturing(checkpoint: Checkpoint): boolean {
  return isUnfinished(checkpoint) && !isPauseCheckpoint(checkpoint) && !isAutomatic(checkpoint);
}

/** Whether clients see a sandbox: not the stock of a set, nor the sandbox of a build. */
export function isForClients({ metadata }: Sandbox): boolean {
  return metadata.labels?.[labels.sandboxClaimed] !== "false" && metadata.labels?.[labels.purpose] === undefined;
}
