import { apiVersion } from "../../api/schema/kind.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import type { Settled } from "../../operations/objects.ts";
import { besideClone } from "../beside/clone.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import type { Io } from "../io.ts";
import { generateName } from "../options.ts";

interface BesideRollback {
  sandbox: Sandbox;
  /** A checkpoint or a named snapshot. */
  to: string;
  wait: boolean;
  timeoutMilliseconds: number;
}

/**
 * Replaces a sandbox by a clone with another name: other controllers restore no checkpoint into a running sandbox. The sandbox is
 * deleted when the clone is ready. If the clone fails, it is deleted, and the sandbox is as before.
 */
export async function rollBackBeside(io: Io, cluster: Cluster, rollback: BesideRollback): Promise<Settled<Sandbox>> {
  const { sandbox, to, wait, timeoutMilliseconds } = rollback;
  const { name, namespace } = sandbox.metadata;
  if (!wait) {
    throw new RametError("InvalidArgument", "Cannot roll back with --no-wait beside other controllers", {
      hint: "The sandbox is replaced by a clone, and can only be deleted when the clone is ready: leave out --no-wait",
    });
  }
  const { annotations, spec } = await besideClone(cluster, to, io.signal);
  const manifest = {
    apiVersion,
    kind: "Sandbox",
    metadata: { generateName: generateName(name), namespace, annotations, labels: sandbox.metadata.labels ?? {} },
    spec,
  };
  const objects = clusterObjects(io, cluster);
  const created = await objects.sandboxes.create(manifest);
  const settled = await awaitSandbox(objects, created, { isNew: true, timeoutMilliseconds, signal: io.signal });
  await objects.sandboxes.remove("failure" in settled ? created : sandbox);
  return settled;
}
