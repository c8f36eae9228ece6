import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { serviceAccounts } from "./service-accounts.ts";

/** Creates a namespace with its default service account: no controller manager runs here, and Pods require the account. */
export async function makeNamespace(client: KubeClient, name: string): Promise<void> {
  const namespaces = client.resource(coreResources.namespaces);
  await namespaces.create({ apiVersion: "v1", kind: "Namespace", metadata: { name } });
  const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "default", namespace: name } };
  await client.resource(serviceAccounts).create(account);
}
