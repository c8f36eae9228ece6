import { RametError } from "../../../src/base/errors.ts";
import type { NamedSnapshot } from "../../../src/api/kinds/named-snapshot.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { follow } from "../follow.ts";
import type { HandlerContext } from "../handler.ts";
import { ownerOf } from "../owner.ts";
import type { NamedSnapshotInputs } from "./inputs.ts";
import { snapshotClient } from "./lookup.ts";
import { recipeSecretName } from "./recipe-secret.ts";

/** Removes the object, and then the Secret of its recipe. What another resource declares by now stays. */
export async function deleteSnapshot(
  client: KubeClient,
  inputs: Pick<NamedSnapshotInputs, "name" | "namespace" | "owner" | "secrets">,
  say: HandlerContext["say"],
): Promise<void> {
  const { name, namespace, owner, secrets } = inputs;
  const snapshots = snapshotClient(client);
  const found = await snapshots.find({ namespace, name });
  if (found !== undefined && ownerOf(found, owner) !== owner) {
    say(`${name}: it stays, as ${ownerOf(found, owner)} declares it by now`);
  } else if (found !== undefined) {
    await snapshots.delete({ namespace, name }, { uid: found.metadata.uid });
    await waitUntilDeleted(snapshots, found, say);
  }
  if (secrets === undefined) return;
  const at = { namespace, name: recipeSecretName(name) };
  const secret = await client.resource(coreResources.secrets).find(at);
  if (secret === undefined || ownerOf(secret, owner) !== owner) return;
  await client.resource(coreResources.secrets).delete(at, { uid: secret.metadata.uid });
}

/**
 * Waits until a named snapshot that is being removed is gone: not long where the controller says who refers to it.
 * @throws RametError `Conflict` naming who does
 */
export async function waitUntilDeleted(
  snapshots: ResourceClient<NamedSnapshot>,
  found: NamedSnapshot,
  say: HandlerContext["say"],
): Promise<void> {
  const { name } = found.metadata;
  let said: string | undefined;
  const isGone = (seen: NamedSnapshot | undefined): boolean => {
    const message = seen?.status?.conditions?.find(({ reason }) => reason === "Deleting")?.message;
    if (message !== undefined && message !== said) say(`${name}: ${message}`);
    said = message;
    return seen === undefined;
  };
  const what = `the removal of the snapshot ${name}`;
  const wait = { resource: snapshots, what };
  const isTold = (seen: NamedSnapshot | undefined): boolean => isGone(seen) || said !== undefined;
  const from = await follow({ ...wait, from: found, until: isTold, timeoutMilliseconds: removalMilliseconds });
  if (from === undefined) return;
  try {
    await follow({ ...wait, from, until: isGone, timeoutMilliseconds: referredMilliseconds });
  } catch (error) {
    throw new RametError("Conflict", said ?? `The snapshot ${name} is not removed yet`, {
      hint: "It goes as soon as nobody refers to it; then run the same again",
      cause: error,
    });
  }
}

const removalMilliseconds = 120_000;
/** What the program itself removes before it is gone by then. */
const referredMilliseconds = 20_000;
