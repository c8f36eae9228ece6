import { clientRoleName } from "../../api/names/system-names.ts";
import { RametError } from "../../base/errors.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { type Io, printLine } from "../io.ts";

/**
 * Creates the service account of a key, and gives it the rights of a user of the client API in its own namespace. Both may exist
 * already.
 * @throws RametError `Conflict` if another object has the name of the RoleBinding
 */
export async function createClientAccount(io: Io, { client, namespace }: Cluster, name: string): Promise<void> {
  const { signal } = io;
  const account = {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name, namespace },
    // The account is for keys. A Pod that uses it must ask for its token.
    automountServiceAccountToken: false,
  };
  try {
    await client.resource(coreResources.serviceAccounts).create(account, { signal });
    printLine(io.stderr, `Created the service account ${name}.`);
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
  }
  const binding = `${clientRoleName}-${name}`;
  const apiGroup = "rbac.authorization.k8s.io";
  const manifest = {
    apiVersion: `${apiGroup}/v1`,
    kind: "RoleBinding",
    metadata: { name: binding, namespace },
    roleRef: { apiGroup, kind: "ClusterRole", name: clientRoleName },
    subjects: [{ kind: "ServiceAccount", name, namespace }],
  };
  await client.resource(coreResources.roleBindings).apply(manifest, { fieldManager: "ramet-cli", signal });
  printLine(io.stderr, `The RoleBinding ${binding} gives it the rights of the ClusterRole ${clientRoleName}.`);
}
