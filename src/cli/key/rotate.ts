import { randomBytes } from "node:crypto";
import type { ApiKey } from "../../api/kinds/api-key.ts";
import { type ApiKeyFormat, newApiKey } from "../../api/keys/api-key-text.ts";
import { lastExpiry } from "../../api/keys/api-key-rules.ts";
import { rotatedDigests } from "../../api/keys/rotate-digests.ts";
import { RametError } from "../../base/errors.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";
import { type KeyOutput, printKey } from "./print-key.ts";

export interface RotateKeyOptions extends ClusterOptions {
  name: string;
  format: ApiKeyFormat;
  /** Milliseconds. */
  grace: number;
  output: KeyOutput;
}

/** `ramet key rotate`: stdout has only the new value, as with `ramet key create`. */
export async function rotateKey(io: Io, options: RotateKeyOptions): Promise<number> {
  const { name, format, output } = options;
  return withCluster(io, options, async (cluster) => {
    const { text, digest } = newApiKey({ namespace: cluster.namespace, name, format, random: randomBytes });
    const key = await addDigest(io, cluster, { name, digest, grace: options.grace });
    await printKey(io, { key, text, output });
    const last = lastExpiry(key.spec.digests);
    printLine(
      io.stderr,
      last === undefined ? "The previous value no longer works." : `The previous value works until ${last}.`,
    );
    return exitCodes.ok;
  });
}

interface NewDigest {
  name: string;
  digest: string;
  grace: number;
}

/** Somebody else can change the key meanwhile, or the response to the own change can be lost. */
async function addDigest(io: Io, cluster: Cluster, { name, digest, grace }: NewDigest, attempts = 5): Promise<ApiKey> {
  const { metadata, spec } = await cluster.get(cluster.apiKeys, name, io.signal);
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
