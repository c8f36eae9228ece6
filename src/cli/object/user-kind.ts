import { apiKeyKind } from "../../api/kinds/api-key.ts";
import { Checkpoint, checkpointKind } from "../../api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../api/kinds/named-snapshot.ts";
import { sandboxClaimKind } from "../../api/kinds/sandbox-claim.ts";
import { sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { sandboxTemplateKind } from "../../api/kinds/sandbox-template.ts";
import { sandboxKind } from "../../api/kinds/sandbox.ts";
import { Storage } from "../../api/state/storage.ts";
import type { KindNames } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Column, OutputFormat } from "../output/render.ts";
import {
  checkpointColumns,
  claimColumns,
  keyColumns,
  sandboxColumns,
  setColumns,
  snapshotColumns,
  templateColumns,
} from "./columns.ts";

export interface UserKind {
  kind: KindNames;
  columns: readonly Column[] | ((storage?: Storage) => readonly Column[]);
}

export const userKindNames = ["sandbox", "checkpoint", "template", "set", "claim", "snapshot", "key"] as const;
export type UserKindName = (typeof userKindNames)[number];

export const userKinds: Readonly<Record<UserKindName, UserKind>> = {
  sandbox: { kind: sandboxKind, columns: sandboxColumns },
  checkpoint: { kind: checkpointKind, columns: checkpointColumns },
  template: { kind: sandboxTemplateKind, columns: templateColumns },
  set: { kind: sandboxSetKind, columns: setColumns },
  claim: { kind: sandboxClaimKind, columns: claimColumns },
  snapshot: { kind: namedSnapshotKind, columns: snapshotColumns },
  key: { kind: apiKeyKind, columns: keyColumns },
};

/**
 * Finds an object by its name, and a checkpoint also by its id, which `ramet checkpoint create` prints.
 *
 * @throws RametError `NotFound`
 */
export async function findObject(cluster: Cluster, kindName: UserKindName, name: string): Promise<KubeObject> {
  const resource = cluster.raw(userKinds[kindName].kind);
  try {
    return await cluster.get(resource, name);
  } catch (error) {
    if (kindName !== "checkpoint" || !(error instanceof RametError) || error.code !== "NotFound") throw error;
    const { items } = await resource.list({ namespace: cluster.namespace, signal: cluster.signal });
    const found = items.find((item) => Checkpoint.safeParse(item).data?.status?.checkpointId === name);
    if (found === undefined) throw error;
    return found;
  }
}

/**
 * The columns of a table. What objects need of the store depends on all Checkpoints of their namespaces.
 * @param options.known all Checkpoints. Default: they are read if they are needed
 */
export async function columnsOf(
  cluster: Cluster,
  kindName: UserKindName,
  options: { namespace: string | undefined; output: OutputFormat; known?: readonly KubeObject[] | undefined },
): Promise<readonly Column[]> {
  const { columns } = userKinds[kindName];
  if (typeof columns !== "function") return columns;
  if (options.output !== "table") return columns();
  return columns(options.known ? storageOf(options.known) : await readStorage(cluster, options.namespace));
}

/** Undefined: the user is not allowed to list Checkpoints. */
export async function readStorage(cluster: Cluster, namespace: string | undefined): Promise<Storage | undefined> {
  try {
    const { items } = await cluster.raw(checkpointKind).list({ namespace, signal: cluster.signal });
    return storageOf(items);
  } catch (error) {
    if (error instanceof RametError && error.code === "Forbidden") return undefined;
    throw error;
  }
}

function storageOf(checkpoints: readonly KubeObject[]): Storage {
  return new Storage(checkpoints.flatMap((one) => Checkpoint.safeParse(one).data ?? []));
}
