import { randomBytes } from "node:crypto";
import { ApiKeyManifest, apiKeyKind, type ApiKey } from "../../api/kinds/api-key.ts";
import { type ApiKeyFormat, newApiKey } from "../../api/keys/api-key-text.ts";
import { defined } from "../../base/defined.ts";
import { RametError, unlessCode } from "../../base/errors.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { checkName } from "../options.ts";
import { lastExpiry, rotatedDigests } from "../../api/keys/api-key-rules.ts";
import { clientRoleName } from "../../api/names/system-names.ts";

export interface CreateKeyOptions extends ClusterOptions {
  name: string;
  serviceAccount: string;
  createServiceAccount?: boolean;
  format: ApiKeyFormat;
  maxSandboxes?: number;
  maxRequestsPerSecond?: number;
  maxConcurrentRequests?: number;
  maxBytesInFlight?: string;
  maxSnapshotBytes?: string;
  output: KeyOutput;
}

/** `ramet key create`: stdout has only the key, whose value is nowhere else. */
export async function createKey(io: Io, options: CreateKeyOptions): Promise<void> {
  const { name, serviceAccount, format, output } = options;
  checkName(name, "<name>");
  checkName(serviceAccount, "--service-account");
  return withCluster(io, options, async (cluster) => {
    const { namespace } = cluster;
    const { text, digest } = newApiKey({ namespace, name, format, random: randomBytes });
    const manifest = manifestOf(options, namespace, digest);
    if (options.createServiceAccount === true) await createClientAccount(io, cluster, serviceAccount);
    else await requireAccount(cluster, serviceAccount);
    const key = await create(cluster, manifest);
    await printKey(io, { key, text, output });
  });
}

/** @throws RametError `InvalidArgument`, which names the flag */
function manifestOf(options: CreateKeyOptions, namespace: string, digest: string): ApiKeyManifest {
  const { name, serviceAccount: serviceAccountName } = options;
  const { maxSandboxes: sandboxes, maxRequestsPerSecond: requestsPerSecond } = options;
  const { maxConcurrentRequests: concurrentRequests, maxBytesInFlight: bytesInFlight } = options;
  const { maxSnapshotBytes: snapshotBytes } = options;
  const limits = defined({ sandboxes, requestsPerSecond, concurrentRequests, bytesInFlight, snapshotBytes });
  const { apiVersion, kind } = apiKeyKind;
  const spec = { serviceAccountName, digests: [{ digest }], ...(Object.keys(limits).length > 0 && { limits }) };
  const { data, error } = ApiKeyManifest.safeParse({ apiVersion, kind, metadata: { name, namespace }, spec });
  if (data !== undefined) return data;
  const [issue] = error.issues;
  const field = issue?.path.at(-1) as keyof typeof limits;
  const value = JSON.stringify(limits[field]);
  throw new RametError("InvalidArgument", `Invalid ${flags[field]}: ${value}: ${issue?.message ?? ""}`);
}

const flags = {
  sandboxes: "--max-sandboxes",
  requestsPerSecond: "--max-requests-per-second",
  concurrentRequests: "--max-concurrent-requests",
  bytesInFlight: "--max-bytes-in-flight",
  snapshotBytes: "--max-snapshot-bytes",
};

async function create(cluster: Cluster, manifest: ApiKeyManifest): Promise<ApiKey> {
  try {
    return await cluster.apiKeys.create(manifest, { signal: cluster.signal });
  } catch (cause) {
    const { name = "" } = manifest.metadata;
    if (RametError.from(cause).code !== "AlreadyExists") throw cause;
    throw new RametError("AlreadyExists", `The key ${name} already exists in namespace ${cluster.namespace}`, {
      hint: `Choose another name, or give it a new value with: ramet key rotate ${name} -n ${cluster.namespace}`,
      cause,
    });
  }
}

/** A key of an account that does not exist has no rights, which is most likely a typing error. */
async function requireAccount(cluster: Cluster, name: string): Promise<void> {
  const { namespace, signal } = cluster;
  try {
    await cluster.client.resource(coreResources.serviceAccounts).get({ namespace, name }, { signal });
  } catch (cause) {
    // Users without the right to read service accounts can still create keys.
    if (RametError.from(cause).code !== "NotFound") return;
    throw new RametError("NotFound", `The service account ${name} does not exist in namespace ${namespace}`, {
      hint: "Correct --service-account, or let the command create it with --create-service-account",
      cause,
    });
  }
}

/** `table` prints only the key. */
export type KeyOutput = "table" | "json";

/** Prints a new key: the key to stdout, and what to know about it to stderr. */
export async function printKey(
  io: Io,
  { key, text, output }: { key: ApiKey; text: string; output: KeyOutput },
): Promise<void> {
  const { name, namespace } = key.metadata;
  const { serviceAccountName } = key.spec;
  const shown = { name, namespace, serviceAccountName, key: text };
  await writeAll(io.stdout, output === "json" ? `${JSON.stringify(shown, undefined, 2)}\n` : `${text}\n`);
  printLine(
    io.stderr,
    `The key ${name} acts as the service account ${serviceAccountName} in namespace ${namespace}. Keep it: it cannot be shown again.`,
  );
}

export interface RotateKeyOptions {
  name: string;
  format: ApiKeyFormat;
  /** Milliseconds. */
  grace: number;
  output: KeyOutput;
}

/** `ramet key rotate`: stdout has only the new value, as with `ramet key create`. */
export async function rotateKey(io: Io, cluster: Cluster, options: RotateKeyOptions): Promise<void> {
  const { name, format, output } = options;
  const { text, digest } = newApiKey({ namespace: cluster.namespace, name, format, random: randomBytes });
  const key = await addDigest(io, cluster, { name, digest, grace: options.grace });
  await printKey(io, { key, text, output });
  const last = lastExpiry(key.spec.digests);
  printLine(
    io.stderr,
    last === undefined ? "The previous value no longer works." : `The previous value works until ${last}.`,
  );
}

interface NewDigest {
  name: string;
  digest: string;
  grace: number;
}

/** Somebody else can change the key meanwhile, or the response to the own change can be lost. */
async function addDigest(io: Io, cluster: Cluster, { name, digest, grace }: NewDigest, attempts = 5): Promise<ApiKey> {
  const { metadata, spec } = await cluster.get(cluster.apiKeys, name);
  const { resourceVersion } = metadata;
  const digests = rotatedDigests(spec.digests, { digest, now: io.clock.now(), graceMilliseconds: grace });
  try {
    const patch = { metadata: { resourceVersion }, spec: { digests } };
    return await cluster.apiKeys.mergePatch(metadata, patch, { signal: io.signal });
  } catch (error) {
    if (RametError.from(error).code !== "Conflict" || attempts === 1) throw error;
    return addDigest(io, cluster, { name, digest, grace }, attempts - 1);
  }
}

/** `ramet key revoke`. Prints each revoked key. */
export async function revokeKeys(
  io: Io,
  cluster: Cluster,
  { names, ignoreNotFound = false }: { names: readonly string[]; ignoreNotFound?: boolean },
): Promise<void> {
  const found = await Promise.all(names.map((name) => find(io, cluster, name, ignoreNotFound)));
  const keys = found.filter((key) => key !== undefined);
  for (const { metadata } of keys) {
    await cluster.apiKeys.delete(metadata, { uid: metadata.uid, signal: io.signal });
    printLine(io.stdout, `key ${metadata.name} revoked`);
  }
}

function find(io: Io, cluster: Cluster, name: string, ignoreNotFound: boolean): Promise<ApiKey | undefined> {
  if (!ignoreNotFound) return cluster.get(cluster.apiKeys, name);
  return cluster.apiKeys.find({ namespace: cluster.namespace, name }, { signal: io.signal });
}

/**
 * Creates the service account of a key, and gives it the rights of a user of the client API in its own namespace. Both may exist
 * already.
 * @throws RametError `Conflict` if another object has the name of the RoleBinding
 */
export async function createClientAccount(io: Io, { client, namespace }: Cluster, name: string): Promise<void> {
  const { signal } = io;
  const account = {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace },
    // The account is for keys. A Pod that uses it must ask for its token.
    automountServiceAccountToken: false,
  };
  const accounts = client.resource(coreResources.serviceAccounts);
  const made = await accounts.create(account, { signal }).catch(unlessCode("AlreadyExists"));
  if (made !== undefined) printLine(io.stderr, `Created the service account ${name}.`);
  const binding = `${clientRoleName}-${name}`;
  const apiGroup = "rbac.authorization.k8s.io";
  const manifest = {
    apiVersion: `${apiGroup}/v1`,
    kind: "RoleBinding",
    metadata: { name: binding, namespace },
    roleRef: { apiGroup, kind: "ClusterRole", name: clientRoleName },
    subjects: [{ kind: "ServiceAccount", name, namespace }],
  };
  await client.resource(coreResources.roleBindings).apply(manifest, { fieldManager: "ramet-cli", signal });
  printLine(io.stderr, `The RoleBinding ${binding} gives it the rights of the ClusterRole ${clientRoleName}.`);
}
