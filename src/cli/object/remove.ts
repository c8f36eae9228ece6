import type { WaitFlags } from "../options.ts";
import type * as z from "zod";
import { hasFailed } from "../../api/state/checkpoint.ts";
import { hasEnded } from "../../api/state/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Io, printLine } from "../io.ts";
import { requestStays, startProgress } from "../wait/follow.ts";
import { findObject, type UserKindName, userKinds } from "./user-kind.ts";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";

export interface RemoveOptions extends WaitFlags {
  kind: UserKindName;
  names: readonly string[];
  /** Removes the objects of the namespace that have failed, instead of those with the names. */
  failed?: boolean;
  /** Whether an object that does not exist counts as removed. */
  ignoreNotFound?: boolean;
}

/** `ramet sandbox rm`, and `rm` of every other kind. Prints each deleted object. */
export async function removeObjects(io: Io, cluster: Cluster, options: RemoveOptions): Promise<void> {
  const objects = await chosen(io, cluster, options);
  await Promise.all(objects.map((object) => removeOne(io, cluster, options, object)));
}

/** @throws RametError `InvalidArgument` without names, or with names and `--failed` */
async function chosen(io: Io, cluster: Cluster, options: RemoveOptions): Promise<KubeObject[]> {
  const { names, kind, failed = false } = options;
  const isFailed = failures[kind];
  if (failed === names.length > 0) {
    throw new RametError("InvalidArgument", failed ? "Cannot use both names and --failed" : `No ${kind} is named`, {
      hint: `Name what to delete: ramet ${kind} rm NAME${isFailed === undefined ? "" : ", or use --failed"}`,
    });
  }
  if (failed) {
    const { items } = await cluster.raw(userKinds[kind].kind).list({ namespace: cluster.namespace, signal: io.signal });
    const found = isFailed === undefined ? [] : items.filter(isFailed);
    if (found.length === 0) printLine(io.stderr, `No ${kind} has failed in namespace ${cluster.namespace}.`);
    return found;
  }
  const found = await Promise.all(names.map((name) => findUnlessIgnored(io, cluster, options, name)));
  return found.filter((object) => object !== undefined);
}

async function findUnlessIgnored(
  io: Io,
  cluster: Cluster,
  options: RemoveOptions,
  name: string,
): Promise<KubeObject | undefined> {
  try {
    return await findObject(cluster, options.kind, name);
  } catch (error) {
    if (options.ignoreNotFound === true && error instanceof RametError && error.code === "NotFound") return undefined;
    throw error;
  }
}

async function removeOne(io: Io, cluster: Cluster, options: RemoveOptions, object: KubeObject): Promise<void> {
  const { kind } = options;
  const resource = cluster.raw(userKinds[kind].kind);
  const { name, namespace, uid } = object.metadata;
  await resource.delete({ namespace, name }, { uid, propagationPolicy: "Background", signal: io.signal });
  if (!options.wait) {
    printLine(io.stdout, `${kind} ${name} is being removed`);
    return;
  }
  const progress = startProgress(io);
  try {
    await waitUntil({
      resource,
      from: object,
      until: (state) => state === undefined,
      onState: (state) => {
        progress(`${kind} ${name}: ${state === undefined ? "removed" : "being removed"}`);
      },
      timeoutMilliseconds: options.timeout,
      signal: io.signal,
    });
  } catch (error) {
    const look = `ramet ${kind} get ${name} -n ${cluster.namespace}`;
    throw requestStays(error, { what: `the end of the ${kind} ${name}`, state: "being removed", look });
  }
  printLine(io.stdout, `${kind} ${name} removed`);
}

/** Whether an object has failed for good, so that only its report is left. An object that cannot be read has not. */
const failures: Partial<Record<UserKindName, (object: KubeObject) => boolean>> = {
  sandbox: readable(Sandbox, hasEnded),
  checkpoint: readable(Checkpoint, hasFailed),
  claim: readable(
    SandboxClaim,
    ({ spec, status }) => status?.phase === "Completed" && (status.claimedReplicas ?? 0) < spec.replicas,
  ),
};

function readable<T>(schema: z.ZodType<T>, is: (object: T) => boolean): (object: KubeObject) => boolean {
  return (object) => {
    const { data } = schema.safeParse(object);
    return data !== undefined && object.metadata.deletionTimestamp === undefined && is(data);
  };
}
