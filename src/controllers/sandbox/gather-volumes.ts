import { ownVolumes } from "../../api/pod/cell-pod.ts";
import { chosenClaims, claimName, volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import type { Origin } from "../origin/origin.ts";
import { heldFrom } from "../cluster/pause-checkpoint.ts";
import { isEnded } from "../cluster/pod-facts.ts";
import type { ResolvedTemplate } from "../origin/resolve-template.ts";
import { type RestoredVolumes, restoredVolumes, rolledBackVolumes, volumesOf } from "../volumes/restored-volumes.ts";
import { type Claim, claimsIn } from "../../kube/volumes/volumes.ts";
import { type RollbackUnderWay, rollbackUnderWay } from "./rollback.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxState } from "./state.ts";

interface Start {
  origin: Origin;
  template: ResolvedTemplate;
  checkpoint: Checkpoint | undefined;
}

/**
 * Finds the claims that the volumes of a sandbox without a Pod mount. A clone of a checkpoint without the data of its source's
 * volumes cannot start unless it chooses its volumes, which is checked before anything is created.
 */
export async function gatherVolumes(
  sandbox: Sandbox,
  { origin, template, checkpoint }: Start,
  { client }: Pick<SandboxDependencies, "client">,
): Promise<Pick<SandboxState, "origin" | "volumes">> {
  const recorded = recordedVolumes(sandbox);
  const { phase } = sandbox.status ?? {};
  const isFirstResume = checkpoint !== undefined && heldFrom(checkpoint) !== undefined;
  const isNew = phase === undefined || phase === "Pending" || isFirstResume;
  const rollback = rollbackUnderWay(sandbox);
  if (origin.kind !== "checkpoint") return { origin, volumes: recorded };
  if (rollback !== undefined)
    return { origin, volumes: volumesOfRollback(sandbox, recorded, { template, checkpoint, rollback }) };
  if (!isNew) return { origin, volumes: recorded };
  const captured = { ...volumesOf(checkpoint), id: origin.source.name.checkpointId };
  try {
    const choice = volumesChoice(sandbox, template.template);
    const { name } = sandbox.metadata;
    const volumes = restoredVolumes(captured, choice, { name, volumes: ownVolumes(name, template) });
    await assertUsable(sandbox, volumes, claimsIn(client));
    return { origin, volumes };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.retryable) throw error;
    return { origin: { kind: "impossible", error }, volumes: recorded };
  }
}

/** The request was checked before the Pod was deleted. */
function volumesOfRollback(
  sandbox: Sandbox,
  before: RestoredVolumes,
  { template, checkpoint, rollback }: Omit<Start, "origin"> & { rollback: RollbackUnderWay },
): RestoredVolumes {
  const { name } = sandbox.metadata;
  const clone = { name, volumes: ownVolumes(name, template), request: rollback.request };
  return rolledBackVolumes(volumesOf(checkpoint), before, clone);
}

/** The volumes of a clone that has started before. */
function recordedVolumes(sandbox: Sandbox): RestoredVolumes {
  const claims = chosenClaims(sandbox);
  const { name } = sandbox.metadata;
  const shared = [...claims].filter(([volume, claim]) => claim !== claimName(volume, name)).map(([, claim]) => claim);
  return { claims, copies: new Map(), shared: [...new Set(shared)], filled: new Map() };
}

/** @throws RametError `NotFound`; `VolumeNotShareable` */
async function assertUsable(
  { metadata: { namespace } }: Sandbox,
  { copies, shared }: RestoredVolumes,
  claims: ResourceClient<Claim>,
): Promise<void> {
  const find = async (name: string): Promise<Claim> => {
    const found = await claims.find({ namespace, name });
    if (found !== undefined && found.metadata.deletionTimestamp === undefined) return found;
    throw new RametError(
      "NotFound",
      `The PersistentVolumeClaim ${name} of the checkpoint's source does not exist any more`,
      {
        hint: shared.includes(name)
          ? `Set ${annotations.volumesOnRestore} to Empty for new claims`
          : "Create it; a new, empty claim is created like it",
      },
    );
  };
  await Promise.all([...copies.values()].map(find));
  for (const { metadata, spec } of await Promise.all(shared.map(find))) {
    if (!spec.accessModes.includes("ReadWriteOncePod")) continue;
    throw new RametError(
      "VolumeNotShareable",
      `The PersistentVolumeClaim ${metadata.name} cannot be shared: its access mode is ReadWriteOncePod, so only one Pod can mount it`,
      { hint: `Set ${annotations.volumesOnRestore} to Empty for new claims` },
    );
  }
}

/** The claims that a Pod mounts and that outlive it. Kubernetes deletes those of ephemeral volumes with the Pod. */
export function lastingClaims({ metadata, spec }: Pod): string[] {
  const lasting = (spec.volumes ?? []).filter(({ ephemeral }) => ephemeral === undefined);
  return [...new Set(volumeClaims(lasting, metadata.name).map(({ claim }) => claim))];
}

/** The claims that a sandbox had before its Pod ended, and that do not exist any more. */
export async function lostClaims(
  { metadata: { namespace }, status }: Sandbox,
  { client }: Pick<SandboxDependencies, "client">,
): Promise<string[]> {
  const { claims: names = [] } = status?.ramet ?? {};
  if (status?.phase !== "Resuming" || names.length === 0) return [];
  const claims = claimsIn(client);
  const found = await Promise.all(names.map((name) => claims.find({ namespace, name })));
  return names.filter((_, at) => found[at] === undefined || found[at].metadata.deletionTimestamp !== undefined);
}

/**
 * The node on which another Pod mounts one of the claims, if no Pod on another node can: Kubernetes attaches a volume with
 * ReadWriteOnce to one node, and its scheduler does not look at that. On a leaving node that Pod ends too, and the volume follows.
 */
export function nodeOfClaims(
  { metadata }: Sandbox,
  claims: readonly Claim[],
  { cache, departures }: Pick<SandboxDependencies, "cache" | "departures">,
): string | undefined {
  const bound = claims.filter(({ spec: { accessModes } }) => !accessModes.some((mode) => manyNodes.has(mode)));
  return bound
    .flatMap((claim) => cache.podsOfClaim(`${metadata.namespace}/${claim.metadata.name}`))
    .filter((pod) => !departures.leaves(pod).leaving)
    .find((pod) => pod.metadata.name !== metadata.name && !isEnded(pod) && pod.spec.nodeName !== undefined)?.spec
    .nodeName;
}

const manyNodes = new Set(["ReadWriteMany", "ReadOnlyMany"]);
