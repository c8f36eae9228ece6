import { group } from "../../api/schema/kind.ts";
import { systemNamespace } from "../../api/names/system-names.ts";
import { gatewayAddressManifests } from "../../install/gateway-address.ts";
import type { Manifest } from "../../install/manifest.ts";
import { KubeClient } from "../../kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import type { ClusterDirectory } from "../cluster-directory.ts";
import { applyManifest } from "./apply-manifest.ts";

/**
 * The account of users who enter sandboxes of a local cluster. Gateways accept tokens of service accounts only, and the user of
 * the cluster's kubeconfig has a certificate; this user may request the account's tokens.
 */
const account = { name: "ramet-local-user", namespace: systemNamespace };

/** Publishes the gateway's address in the cluster, and lets its users enter sandboxes and reach their ports. */
export async function publishGateway({ kubeconfig }: ClusterDirectory, port: number): Promise<void> {
  const client = new KubeClient(await connectionFromKubeconfig({ path: kubeconfig }));
  try {
    await Promise.all(manifests(port).map((manifest) => applyManifest(client, manifest)));
  } finally {
    await client.close();
  }
}

function manifests(port: number): Manifest[] {
  const { name, namespace } = account;
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const rules = [{ apiGroups: [group], resources: ["sandboxes/exec", "sandboxes/proxy"], verbs: ["create"] }];
  return [
    ...gatewayAddressManifests({ url: `http://127.0.0.1:${port}`, serviceAccount: `${namespace}/${name}` }),
    { apiVersion: "v1", kind: "ServiceAccount", metadata: account },
    { apiVersion, kind: "ClusterRole", metadata: { name }, rules },
    {
      apiVersion,
      kind: "ClusterRoleBinding",
      metadata: { name },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
      subjects: [{ kind: "ServiceAccount", ...account }],
    },
  ];
}
