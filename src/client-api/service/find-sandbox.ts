import { clientSandboxId } from "../../api/pod/client-environment.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { lagMilliseconds, unlessTimeout, untilSandboxKnown } from "./cache-lag.ts";
import type { ServiceParts } from "./parts.ts";
import { isForClients } from "./sandbox-state.ts";

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
  parts: ServiceParts,
  namespace: string,
  id: string,
  signal: AbortSignal,
): Promise<Sandbox> {
  const found = await lookUp(parts, namespace, id, signal);
  if (found === undefined || found.metadata.namespace !== namespace || !isForClients(found)) throw unknown(id);
  return found;
}

async function lookUp(
  { informers, writes, sandboxes }: ServiceParts,
  namespace: string,
  id: string,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const uid = uidOf(id);
  if (uid === undefined) {
    const name = id.startsWith(`${namespace}--`) ? id.slice(namespace.length + 2) : undefined;
    const cached = name === undefined ? undefined : informers.sandboxes.store.get(`${namespace}/${name}`);
    return cached && writes.latest(cached);
  }
  const options = { what: "Looking for the sandbox", timeoutMilliseconds: lagMilliseconds, signal };
  return (await sandboxes.until(uid, (sandbox) => sandbox, options).catch(unlessTimeout)) ?? undefined;
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
  return cached === undefined ? untilSandboxKnown({ sandboxes }, found, signal) : writes.latest(cached);
}

export function unknown(id: string): RametError {
  return new RametError("NotFound", `The sandbox ${id.slice(0, 80)} does not exist`);
}
