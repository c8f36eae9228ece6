import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { waitUntil } from "../../kube/wait-until.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";
import { requestStays, startProgress } from "../wait/follow.ts";
import { findObject, type UserKindName, userKinds } from "./user-kind.ts";

export interface RemoveOptions extends ClusterOptions {
  kind: UserKindName;
  names: readonly string[];
  /** Whether an object that does not exist counts as removed. */
  ignoreNotFound?: boolean;
  /** Waits until the objects and their dependents are deleted. */
  wait: boolean;
  /** Milliseconds; `Infinity` waits forever. */
  timeout: number;
}

/** `ramet sandbox rm`, and `rm` of every other kind. Prints each deleted object. */
export async function removeObjects(io: Io, options: RemoveOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const found = await Promise.all(options.names.map((name) => findUnlessIgnored(io, cluster, options, name)));
    const objects = found.filter((object) => object !== undefined);
    await Promise.all(objects.map((object) => removeOne(io, cluster, options, object)));
    return exitCodes.ok;
  });
}

async function findUnlessIgnored(
  io: Io,
  cluster: Cluster,
  options: RemoveOptions,
  name: string,
): Promise<KubeObject | undefined> {
  try {
    return await findObject(cluster, options.kind, name, io.signal);
  } catch (error) {
    if (options.ignoreNotFound === true && error instanceof RametError && error.code === "NotFound") return undefined;
    throw error;
  }
}

async function removeOne(io: Io, cluster: Cluster, options: RemoveOptions, object: KubeObject): Promise<void> {
  const { noun, kind } = userKinds[options.kind];
  const resource = cluster.raw(kind);
  const { name, namespace, uid } = object.metadata;
  await resource.delete({ namespace, name }, { uid, propagationPolicy: "Background", signal: io.signal });
  if (!options.wait) {
    printLine(io.stdout, `${noun} ${name} is being removed`);
    return;
  }
  const progress = startProgress(io);
  try {
    await waitUntil({
      resource,
      from: object,
      until: (state) => state === undefined,
      onState: (state) => {
        progress(`${noun} ${name}: ${state === undefined ? "removed" : "being removed"}`);
      },
      timeoutMilliseconds: options.timeout,
      signal: io.signal,
    });
  } catch (error) {
    const look = `ramet ${noun} ls`;
    throw requestStays(error, { what: `the end of the ${noun} ${name}`, state: "being removed", look });
  }
  printLine(io.stdout, `${noun} ${name} removed`);
}
