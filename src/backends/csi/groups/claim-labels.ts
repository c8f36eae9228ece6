import { checkpointOfGroupLabel, groupLabel } from "../../../api/names/labels.ts";
import { unlessCode } from "../../../base/errors.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import { type Claim, claimsIn } from "../../../kube/volumes/volumes.ts";
import type { CheckpointName } from "../../backend.ts";
import { selectorOf, type VolumeGroup } from "./group-record.ts";

/** Labels the claims of a group, so that its selector finds exactly them. @throws RametError if one was replaced meanwhile */
export async function labelClaims(client: KubeClient, name: CheckpointName, group: VolumeGroup): Promise<void> {
  const { namespace } = name;
  await Promise.all(
    group.volumes.map(({ claim, claimUid: uid }) =>
      claimsIn(client).mergePatch(
        { namespace, name: claim },
        { metadata: { uid, labels: selectorOf(name, group.driver) } },
      ),
    ),
  );
}

/** Removes the labels of a checkpoint's groups from all claims, also what an earlier attempt has left. */
export async function unlabelClaims(client: KubeClient, { namespace, checkpointId }: CheckpointName): Promise<void> {
  const label = groupLabel(checkpointId);
  const { items } = await claimsIn(client).list({ namespace, labelSelector: label });
  await Promise.all(items.map((claim) => removeLabel(client, claim, label)));
}

export function checkpointsOnClaim({ metadata }: Claim): CheckpointName[] {
  return Object.keys(metadata.labels ?? {}).flatMap((label) => {
    const checkpointId = checkpointOfGroupLabel(label);
    return checkpointId === undefined ? [] : [{ namespace: metadata.namespace ?? "", checkpointId }];
  });
}

async function removeLabel(client: KubeClient, { metadata }: Claim, label: string): Promise<void> {
  const { uid } = metadata;
  await claimsIn(client)
    .mergePatch(metadata, { metadata: { uid, labels: { [label]: null } } })
    // It was deleted, or replaced by another claim of the same name.
    .catch(unlessCode("NotFound", "Conflict"));
}
