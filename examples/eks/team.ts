import * as k8s from "@pulumi/kubernetes";
import { Config, type Resource } from "@pulumi/pulumi";
import {
  ApiKey,
  NamedSnapshot,
  type Provider,
  type RametRuntime,
  run,
  SandboxClone,
  SandboxSet,
  SandboxTemplate,
  start,
  waitFor,
} from "ramet";

interface Cluster {
  kubernetes: k8s.Provider;
  ramet: Provider;
  runtime: RametRuntime;
}

/** A namespace with limits and rights, and in it a snapshot, a pool of its clones and a key for E2B's SDKs. */
export function team(name: string, { kubernetes, ramet, runtime }: Cluster) {
  const inCluster = { provider: kubernetes, dependsOn: runtime };
  const namespace = new k8s.core.v1.Namespace(
    name,
    {
      metadata: {
        name,
        // Ramet's admission policies restrict what a template may have, because cells need more than "restricted" allows.
        labels: { "pod-security.kubernetes.io/enforce": "privileged" },
        annotations: { "ramet.dev/quota": "storeBytes=500Gi" },
      },
    },
    inCluster,
  ).metadata.name;
  new k8s.core.v1.ResourceQuota(
    name,
    { metadata: { name: "sandboxes", namespace }, spec: { hard: { pods: "100", "limits.memory": "100Gi" } } },
    inCluster,
  );
  const agents = new k8s.core.v1.ServiceAccount(
    name,
    { metadata: { name: "agents", namespace }, automountServiceAccountToken: false },
    inCluster,
  ).metadata.name;
  new k8s.rbac.v1.RoleBinding(
    name,
    {
      metadata: { name: "agents", namespace },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "ramet-client" },
      subjects: [{ kind: "ServiceAccount", name: agents, namespace }],
    },
    inCluster,
  );
  const both = { providers: [kubernetes, ramet], dependsOn: runtime };
  const python = new SandboxTemplate(
    "python",
    {
      namespace,
      image: "docker.io/library/python:3.13-slim",
      resources: { cpu: "1", memory: "512Mi", ephemeralStorage: "5Gi" },
      egress: { default: "deny", allow: ["pypi.org:443", "files.pythonhosted.org:443"] },
    },
    both,
  );
  const data = new NamedSnapshot(
    "python-data",
    {
      namespace,
      from: python,
      recipe: [run("pip install pandas==2.3.0"), start("python3 -m http.server 8000"), waitFor({ port: 8000 })],
    },
    { provider: ramet },
  );
  new SandboxSet("pool", { namespace, from: data, replicas: 3 }, both);
  const dev = new SandboxClone(
    "dev",
    { namespace, from: data, lifetime: "8 hours", publicPorts: [8000] },
    { provider: ramet },
  );
  const key = new ApiKey(
    "agents",
    { namespace, serviceAccountName: agents, limits: { sandboxes: 20, snapshotBytes: "20Gi" } },
    { provider: ramet },
  );
  return { apiKey: key.key, snapshot: data.reference, url: dev.url };
}

/** The Secret with the key that encrypts checkpoints. The controllers need it when they start. */
export function checkpointKeys(kubernetes: k8s.Provider, dependsOn: Resource | Resource[]) {
  const namespace = new k8s.core.v1.NamespacePatch(
    "ramet-system",
    { metadata: { name: "ramet-system" } },
    { provider: kubernetes, dependsOn, retainOnDelete: true },
  ).metadata.name;
  return new k8s.core.v1.Secret(
    "checkpoint-keys",
    {
      metadata: { name: "checkpoint-keys", namespace },
      stringData: { current: "k1" },
      data: { k1: new Config().requireSecret("checkpointKey") },
    },
    { provider: kubernetes },
  );
}
