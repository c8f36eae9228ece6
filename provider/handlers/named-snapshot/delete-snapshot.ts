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

/** Deletes the object, then the Secret of its recipe. Keeps objects that another resource declares by now. */
export async function deleteSnapshot(
  client: KubeClient,
  inputs: Pick<NamedSnapshotInputs, "name" | "namespace" | "owner" | "secrets">,
  context: Pick<HandlerContext, "log" | "signal">,
): Promise<void> {
  const { name, namespace, owner, secrets } = inputs;
  const snapshots = snapshotClient(client);
  const found = await snapshots.find({ namespace, name });
  if (found !== undefined && ownerOf(found, owner) !== owner) {
    context.log(`${name}: not deleted, because it is now declared by ${ownerOf(found, owner)}`);
  } else if (found !== undefined) {
    await snapshots.delete({ namespace, name }, { uid: found.metadata.uid });
    await waitUntilDeleted(snapshots, found, context);
  }
  if (secrets === undefined) return;
  const at = { namespace, name: recipeSecretName(name) };
  const secret = await client.resource(coreResources.secrets).find(at);
  if (secret === undefined || ownerOf(secret, owner) !== owner) return;
  await client.resource(coreResources.secrets).delete(at, { uid: secret.metadata.uid });
}

/**
 * Waits until a named snapshot is deleted. The wait is short if the controller reports references to it.
 * @throws RametError `Conflict` naming the references
 */
export async function waitUntilDeleted(
  snapshots: ResourceClient<NamedSnapshot>,
  found: NamedSnapshot,
  { log, signal }: Pick<HandlerContext, "log" | "signal">,
): Promise<void> {
  const { name } = found.metadata;
  let lastMessage: string | undefined;
  const isDeleted = (seen: NamedSnapshot | undefined): boolean => {
    const message = seen?.status?.conditions?.find(({ reason }) => reason === "Deleting")?.message;
    if (message !== undefined && message !== lastMessage) log(`${name}: ${message}`);
    lastMessage = message;
    return seen === undefined;
  };
  const what = `the deletion of the snapshot ${name}`;
  const wait = { resource: snapshots, what, signal };
  const isDeletedOrReferenced = (seen: NamedSnapshot | undefined): boolean =>
    isDeleted(seen) || lastMessage !== undefined;
  const from = await follow({
    ...wait,
    from: found,
    until: isDeletedOrReferenced,
    timeoutMilliseconds: deletionMilliseconds,
  });
  if (from === undefined) return;
  try {
    await follow({ ...wait, from, until: isDeleted, timeoutMilliseconds: referencedMilliseconds });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new RametError("Conflict", lastMessage ?? `The snapshot ${name} is not deleted yet`, {
      hint: "It is deleted when nothing refers to it; run the command again then",
      cause: error,
    });
  }
}

const deletionMilliseconds = 120_000;
/** Enough for references that the same program deletes. */
const referencedMilliseconds = 20_000;
