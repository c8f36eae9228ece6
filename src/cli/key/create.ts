import { randomBytes } from "node:crypto";
import { ApiKeyManifest, apiKeyKind, type ApiKey } from "../../api/kinds/api-key.ts";
import { type ApiKeyFormat, newApiKey } from "../../api/keys/api-key-text.ts";
import { RametError } from "../../base/errors.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import type { Io } from "../io.ts";
import { checkName } from "../options.ts";
import { createClientAccount } from "./client-account.ts";
import { type KeyOutput, printKey } from "./print-key.ts";

export interface CreateKeyOptions extends ClusterOptions {
  name: string;
  serviceAccount: string;
  createServiceAccount?: boolean;
  format: ApiKeyFormat;
  maxSandboxes?: number;
  maxRequestsPerSecond?: number;
  maxSnapshotBytes?: string;
  output: KeyOutput;
}

/** `ramet key create`: stdout has only the key, whose value is nowhere else. */
export async function createKey(io: Io, options: CreateKeyOptions): Promise<number> {
  const { name, serviceAccount, format, output } = options;
  checkName(name, "<name>");
  checkName(serviceAccount, "--service-account");
  return withCluster(io, options, async (cluster) => {
    const { namespace } = cluster;
    const { text, digest } = newApiKey({ namespace, name, format, random: randomBytes });
    const manifest = manifestOf(options, namespace, digest);
    if (options.createServiceAccount === true) await createClientAccount(io, cluster, serviceAccount);
    else await requireAccount(cluster, serviceAccount, io.signal);
    const key = await create(cluster, manifest, io.signal);
    await printKey(io, { key, text, output });
    return exitCodes.ok;
  });
}

/** @throws RametError `InvalidArgument`, which names the flag */
function manifestOf(options: CreateKeyOptions, namespace: string, digest: string): ApiKeyManifest {
  const { name, serviceAccount: serviceAccountName } = options;
  const { maxSandboxes: sandboxes, maxRequestsPerSecond: requestsPerSecond } = options;
  const { maxSnapshotBytes: snapshotBytes } = options;
  const limits = {
    ...(sandboxes !== undefined && { sandboxes }),
    ...(requestsPerSecond !== undefined && { requestsPerSecond }),
    ...(snapshotBytes !== undefined && { snapshotBytes }),
  };
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
  snapshotBytes: "--max-snapshot-bytes",
};

async function create(cluster: Cluster, manifest: ApiKeyManifest, signal: AbortSignal): Promise<ApiKey> {
  try {
    return await cluster.apiKeys.create(manifest, { signal });
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
async function requireAccount(cluster: Cluster, name: string, signal: AbortSignal): Promise<void> {
  const { namespace } = cluster;
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
