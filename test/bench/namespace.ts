import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";

/** No controller manager makes the service account here, and the API server lets no Pod in without. */
export async function makeNamespace(client: KubeClient, name: string): Promise<void> {
  const namespaces = client.resource(coreResources.namespaces);
  await namespaces.create({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
  const serviceAccounts = { group: "", version: "v1", plural: "serviceaccounts", kind: "ServiceAccount" };
  await client
    .resource({ ...serviceAccounts, namespaced: true })
    .create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace: name } });
}
