import * as kubernetes from "@pulumi/kubernetes";
import { ApiKey } from "ramet";

// It exists already.
const namespace = "team-a";

// An account whose keys can use the client API in this namespace, and nothing else.
const account = new kubernetes.core.v1.ServiceAccount("agents", {
  metadata: { name: "agents", namespace },
  automountServiceAccountToken: false,
});
new kubernetes.rbac.v1.RoleBinding("agents", {
  metadata: { name: "agents", namespace },
  roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "ramet-client" },
  subjects: [{ kind: "ServiceAccount", name: account.metadata.name, namespace }],
});

// Another text for `rotate` replaces the key. The previous one works for two more days.
const key = new ApiKey("agents", {
  namespace,
  serviceAccountName: account.metadata.name,
  limits: { sandboxes: 20, snapshotBytes: "20Gi" },
  rotate: "2030-01",
  grace: "2 days",
});

// For a program in the cluster that uses E2B's SDK.
new kubernetes.core.v1.Secret("e2b", {
  metadata: { name: "e2b", namespace },
  stringData: { E2B_API_KEY: key.key },
});

// pulumi stack output apiKey --show-secrets
export const apiKey = key.key;
