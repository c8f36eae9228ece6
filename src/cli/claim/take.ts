import { RametError } from "../../base/errors.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { SandboxClaim, sandboxClaimKind } from "../../api/kinds/sandbox-claim.ts";
import { refOf, withCluster, type Cluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeAll, type Io } from "../io.ts";
import { checkpointReference } from "../checkpoint/reference.ts";
import { checkName, generateName } from "../names.ts";
import { renderObject, type OutputFormat } from "../output/render.ts";
import { reportError } from "../report-error.ts";
import { claimColumns } from "./columns.ts";
import { shortfall } from "./shortfall.ts";
import { untilCompleted } from "./until-completed.ts";

export interface TakeOptions extends ClusterOptions {
  set: string;
  count: number;
  label?: Record<string, string>;
  env?: Record<string, string>;
  /** A Checkpoint's name or id, or a named snapshot, that is to go on in each. */
  from?: string;
  /** Make sandboxes where none is ready. */
  create: boolean;
  name?: string;
  wait: boolean;
  /** Milliseconds; infinite is for ever. */
  timeout: number;
  /** `table` prints the names alone. */
  output: OutputFormat;
}

/** `ramet claim SET`: writes a SandboxClaim, which the controllers serve. Prints what was claimed, also if that is too little. */
export async function takeFromSet(io: Io, options: TakeOptions): Promise<number> {
  check(options);
  return withCluster(io, options, async (cluster) => {
    const claims = cluster.client.resource(refOf(sandboxClaimKind), (value) => SandboxClaim.parse(value));
    const created = await cluster.create(claims, await manifest(cluster, options, io.signal), io.signal);
    const claim = options.wait
      ? await untilCompleted(io, claims, { claim: created, timeoutMilliseconds: options.timeout })
      : created;
    await writeAll(io.stdout, rendered(io, claim, options));
    const missing = options.wait ? shortfall(claim) : undefined;
    return missing === undefined ? exitCodes.ok : reportError(io, missing, options.output);
  });
}

function rendered(io: Io, claim: SandboxClaim, { output, wait }: TakeOptions): string {
  if (output === "json" || output === "yaml") {
    return renderObject(claim, { output, columns: claimColumns, now: io.clock.now() });
  }
  const names = wait ? (claim.status?.ramet?.sandboxes ?? []) : [claim.metadata.name];
  return names.map((name) => `${name}\n`).join("");
}

function check({ set, count, name, timeout }: TakeOptions): void {
  checkName(set, "the set");
  if (name !== undefined) checkName(name, "--name");
  if (count < 1) throw new RametError("InvalidArgument", "--count must be 1 or more");
  if (timeout < 1000) throw new RametError("InvalidArgument", "--timeout must be 1s or more, or 0 for ever");
}

async function manifest(cluster: Cluster, options: TakeOptions, signal: AbortSignal) {
  const { set, count, label, env, from, create, name, timeout } = options;
  return {
    apiVersion,
    kind: "SandboxClaim",
    metadata: {
      ...(name === undefined ? { generateName: generateName(set) } : { name }),
      namespace: cluster.namespace,
    },
    spec: {
      templateName: set,
      replicas: count,
      claimTimeout: timeout === Infinity ? forEver : `${Math.ceil(timeout / 1000)}s`,
      createOnNoStock: create,
      ...(label && { labels: label }),
      ...(env && { envVars: env }),
      ...(from !== undefined && {
        annotations: { [restoreFromAnnotations[0]]: await checkpointReference(cluster, from, signal) },
      }),
    },
  };
}

/** A hundred years: a claim has to say something. */
const forEver = "876000h";
