import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type Snapshot, snapshotsIn, volumeFinalizers } from "../../kube/volumes/snapshots.ts";
import { type Claim, claimsIn } from "../../kube/volumes/volumes.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { type Io, printLine } from "../io.ts";
import { hasFinalizer, isProvisioning, restores } from "./volume-facts.ts";

/** `ramet explain volumesnapshot/NAME --remove-orphaned-finalizer`: removes it, and reports what it did. @throws RametError */
export async function removeFinalizer(
  io: Io,
  options: ClusterOptions & { name: string; output: "table" | "json" },
): Promise<void> {
  return withCluster(io, options, async ({ client, namespace }) => {
    const { name } = options;
    const removed = await removeOrphanedFinalizer(client, { namespace, name }, io.signal);
    const { finalizer, claims, resourceVersion } = removed;
    const object = `volumesnapshot/${name}`;
    printLine(
      io.stdout,
      options.output === "json"
        ? JSON.stringify({ object, namespace, removed: finalizer, claims, resourceVersion }, undefined, 2)
        : `Removed the finalizer ${finalizer} of ${object} in ${namespace} (resource version ${resourceVersion}): none of ${claims} claims is restoring it`,
    );
  });
}

interface RemovedFinalizer {
  finalizer: string;
  /** How many claims of the cluster were looked at. */
  claims: number;
  /** The resource version that the removal required. */
  resourceVersion: string;
}

/**
 * Removes the finalizer that external-provisioner 6.2 leaves behind, with the check of 6.3: no claim of the cluster is restoring.
 * Only from a VolumeSnapshot that is being deleted. A restore that begins between the check and the removal is still protected by
 * the snapshot-controller, which deletes no snapshot that a Pending claim of its namespace names.
 *
 * @throws RametError `Conflict` if a claim may be restoring or the snapshot changes meanwhile, `NotFound` if there is no such
 * finalizer, `Forbidden`
 */
async function removeOrphanedFinalizer(
  client: KubeClient,
  at: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<RemovedFinalizer> {
  const snapshot = await snapshotsIn(client).get(at, { signal });
  checkFinalizer(snapshot);
  const { items: claims } = await claimsIn(client).list({ signal });
  const restoring = claims.filter((claim) => isProvisioning(claim) && restores(claim, at));
  if (restoring.length > 0) throw stillRestored(at, restoring);
  const { resourceVersion, finalizers = [] } = snapshot.metadata;
  await snapshotsIn(client).mergePatch(
    at,
    { metadata: { resourceVersion, finalizers: finalizers.filter((one) => one !== volumeFinalizers.restoring) } },
    { signal },
  );
  return { finalizer: volumeFinalizers.restoring, claims: claims.length, resourceVersion };
}

function checkFinalizer(snapshot: Snapshot): void {
  const { name, deletionTimestamp } = snapshot.metadata;
  if (!hasFinalizer(snapshot, volumeFinalizers.restoring))
    throw new RametError(
      "NotFound",
      `The VolumeSnapshot ${name} does not have the finalizer ${volumeFinalizers.restoring}`,
      { hint: "Find out what it waits for without --remove-orphaned-finalizer" },
    );
  if (deletionTimestamp === undefined)
    throw new RametError(
      "Conflict",
      `The VolumeSnapshot ${name} is not being deleted, so its finalizers keep nothing`,
      { hint: "Delete the VolumeSnapshot first; until then, a restore may begin at any time" },
    );
}

function stillRestored({ name }: { name: string }, claims: readonly Claim[]): RametError {
  const named = claims.slice(0, 5).map(({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`);
  return new RametError("Conflict", `The VolumeSnapshot ${name} may be being restored by ${named.join(", ")}`, {
    hint: "Wait until these claims are bound, or delete them; ramet explain pvc/NAME says what one waits for",
  });
}
