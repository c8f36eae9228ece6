import { type SandboxClaim, sandboxClaimKind } from "../../api/kinds/sandbox-claim.ts";
import { labels, restoreFromAnnotations } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { defined } from "../../base/defined.ts";
import { type ErrorCode, errorCodes } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { describeReport, describeState, findCondition } from "../../kube/conditions.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type Io, writeAll } from "../io.ts";
import { claimColumns } from "../object/columns.ts";
import { type VolumesFlag, type WaitFlags, checkName, naming, volumesAnnotation } from "../options.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import { checkpointReference } from "../platform/source.ts";
import { exitCodes, reportError } from "../report-error.ts";
import { followRequest } from "../wait/follow.ts";

export interface TakeOptions extends ClusterOptions, VolumesFlag, WaitFlags {
  set: string;
  count: number;
  label?: Record<string, string>;
  env?: Record<string, string>;
  /** A Checkpoint's name or id, or a named snapshot, to restore into each sandbox. */
  from?: string;
  /** Whether to create sandboxes when none is ready. */
  create: boolean;
  name?: string;
  /** `table` prints only the names. */
  output: OutputFormat;
}

/** `ramet claim SET`: creates a SandboxClaim. Prints the claimed sandboxes, also if there are fewer than requested. */
export async function takeFromSet(io: Io, options: TakeOptions): Promise<number> {
  check(options);
  return withCluster(io, options, async (cluster) => {
    if (options.from !== undefined) (await platformOf(io, cluster)).expectRestoreOnClaim(options.from);
    const claims = cluster.client.of(sandboxClaimKind);
    const created = await cluster.create(claims, await manifest(cluster, options));
    const claim = options.wait
      ? await untilCompleted(io, claims, { claim: created, timeoutMilliseconds: options.timeout })
      : created;
    await writeAll(io.stdout, await rendered(io, cluster, claim, options));
    const missing = options.wait ? shortfall(claim) : undefined;
    return missing === undefined ? exitCodes.ok : reportError(io, missing, options.output);
  });
}

async function rendered(io: Io, cluster: Cluster, claim: SandboxClaim, { output, wait }: TakeOptions): Promise<string> {
  if (output === "json" || output === "yaml") {
    return renderObject(claim, { output, columns: claimColumns, now: io.clock.now() });
  }
  const names = wait ? await claimedNames(cluster, claim) : [claim.metadata.name];
  return names.map((name) => `${name}\n`).join("");
}

/** Other controllers name the claimed sandboxes by a label only. */
async function claimedNames(
  { sandboxes, signal }: Cluster,
  { metadata: { name, namespace }, status }: SandboxClaim,
): Promise<string[]> {
  if (status?.ramet?.sandboxes !== undefined) return status.ramet.sandboxes;
  const labelSelector = `${labels.claimName}=${name}`;
  const { items } = await sandboxes.list({ namespace, labelSelector, signal });
  return items.map(({ metadata }) => metadata.name);
}

function check({ set, name, timeout }: TakeOptions): void {
  checkName(set, "the set");
  if (name !== undefined) checkName(name, "--name");
  if (timeout < 1000) throw new RametError("InvalidArgument", "--timeout must be 1s or more, or 0 forever");
}

async function manifest(cluster: Cluster, options: TakeOptions) {
  const { set, count, label, env, from, create, name, timeout } = options;
  return {
    apiVersion,
    kind: "SandboxClaim",
    metadata: {
      ...naming(name, set),
      namespace: cluster.namespace,
    },
    spec: {
      templateName: set,
      replicas: count,
      claimTimeout: timeout === Infinity ? forEver : `${Math.ceil(timeout / 1000)}s`,
      createOnNoStock: create,
      ...defined({ labels: label, envVars: env }),
      ...(from !== undefined && {
        annotations: {
          [restoreFromAnnotations[0]]: await checkpointReference(cluster, from),
          ...volumesAnnotation(options),
        },
      }),
    },
  };
}

/** A hundred years: the field cannot be empty. */
const forEver = "876000h";

/** Why a completed claim has fewer sandboxes than requested; undefined if it has them all. */
function shortfall({ metadata, spec, status }: SandboxClaim): RametError | undefined {
  if ((status?.claimedReplicas ?? 0) >= spec.replicas) return undefined;
  const reason = findCondition(status?.conditions, "Completed")?.reason ?? "";
  return new RametError(
    codeOf(reason),
    `The claim ${metadata.name} has ${describeReport({ status }) ?? "claimed nothing"}`,
    { hint: `Remove the claim, which has ended, with: ramet claim rm ${metadata.name} -n ${metadata.namespace}` },
  );
}

function codeOf(reason: string): ErrorCode {
  if (reason === "TimeoutReached") return "Timeout";
  if (reason === "SandboxSetNotFound") return "NotFound";
  return Object.hasOwn(errorCodes, reason) ? (reason as ErrorCode) : "Internal";
}

/**
 * Waits until a claim is completed. The controller completes it when its own timeout expires.
 *
 * @throws RametError `Timeout` if no controller completes it, `Canceled`, `Conflict` if it was deleted
 */
async function untilCompleted(
  io: Io,
  claims: ResourceClient<SandboxClaim>,
  { claim, timeoutMilliseconds }: { claim: SandboxClaim; timeoutMilliseconds: number },
): Promise<SandboxClaim> {
  const { name } = claim.metadata;
  const last = await followRequest(io, {
    resource: claims,
    from: claim,
    noun: "claim",
    isNew: true,
    timeoutMilliseconds: timeoutMilliseconds + graceMilliseconds,
    isOver: ({ status }) => status?.phase === "Completed",
    describe: describeState,
  });
  if (last !== undefined) return last;
  throw new RametError("Conflict", `The claim ${name} was deleted during the wait`);
}

/** The controller's clock decides when the claim times out, and completing it takes a moment. */
const graceMilliseconds = 10_000;
