import { apiVersion } from "../../api/schema/kind.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { besideClone } from "../beside/clone.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { generateName } from "../options.ts";
import type { Settled } from "../wait/follow.ts";
import { untilReady } from "./until-ready.ts";

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
  const { name, namespace, uid } = sandbox.metadata;
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
  const created = await cluster.create(cluster.sandboxes, manifest, io.signal);
  const settled = await untilReady(io, cluster, { sandbox: created, timeoutMilliseconds });
  const unneeded = "failure" in settled ? created : { metadata: { name, namespace, uid } };
  const at = { namespace, name: unneeded.metadata.name };
  await cluster.sandboxes.delete(at, { uid: unneeded.metadata.uid, signal: io.signal });
  return settled;
}
