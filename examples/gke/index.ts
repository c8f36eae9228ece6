import * as kubernetes from "@pulumi/kubernetes";
import { Config, interpolate } from "@pulumi/pulumi";
import { Provider, RametRuntime, SnapshotStack } from "ramet";
import { addressName, certificateMap, domain, kubeconfig, project, ready, region, registry } from "./cluster.ts";
import { checkpointKeys, team } from "./team.ts";

const tag = new Config().require("tag");
const inCluster = new kubernetes.Provider("cluster", { kubeconfig });
const keys = checkpointKeys(inCluster, ready);

// Snapshots of volumes, as images that many clones can read, and a private bucket for checkpoints.
const stack = new SnapshotStack(
  "snapshots",
  {
    cloud: "gke",
    kubeconfig,
    classes: [{ driver: "pd.csi.storage.gke.io", pd: { type: "images" } }],
    gke: { store: { project, location: region, bucket: `${project}-ramet-checkpoints` } },
  },
  { provider: inCluster, dependsOn: ready },
);

// Google's load balancer, with the address and the certificate that the program made.
const gateway = new kubernetes.apiextensions.CustomResource(
  "public",
  {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "Gateway",
    metadata: {
      name: "public",
      namespace: keys.metadata.namespace,
      annotations: { "networking.gke.io/certmap": certificateMap },
    },
    spec: {
      gatewayClassName: "gke-l7-global-external-managed",
      listeners: [{ name: "https", protocol: "HTTPS", port: 443 }],
      addresses: [{ type: "NamedAddress", value: addressName }],
    },
  },
  { provider: inCluster, dependsOn: keys },
);

const runtime = new RametRuntime(
  "ramet",
  {
    mode: "install",
    kubeconfig,
    image: interpolate`${registry}/ramet:${tag}`,
    cellImage: interpolate`${registry}/ramet-cell:${tag}`,
    store: stack.store,
    encryption: { secret: keys.metadata.name },
    clientApi: {},
    gateway: { domain, gatewayApi: "ramet-system/public" },
  },
  { provider: inCluster, dependsOn: [stack, gateway] },
);

new kubernetes.apiextensions.CustomResource(
  "health",
  {
    apiVersion: "networking.gke.io/v1",
    kind: "HealthCheckPolicy",
    metadata: { name: "ramet-gateway", namespace: keys.metadata.namespace },
    spec: {
      default: { config: { type: "HTTP", httpHealthCheck: { requestPath: "/healthz" } } },
      targetRef: { group: "", kind: "Service", name: "ramet-gateway" },
    },
  },
  { provider: inCluster, dependsOn: keys },
);

// Commands and streams take longer than the 30 s that Google's load balancer allows by default.
new kubernetes.apiextensions.CustomResource(
  "timeout",
  {
    apiVersion: "networking.gke.io/v1",
    kind: "GCPBackendPolicy",
    metadata: { name: "ramet-gateway", namespace: keys.metadata.namespace },
    spec: { default: { timeoutSec: 86_400 }, targetRef: { group: "", kind: "Service", name: "ramet-gateway" } },
  },
  { provider: inCluster, dependsOn: keys },
);

const ramet = new Provider("ramet", { kubeconfig, namespace: "team-a" });
export const { apiKey, snapshot, url } = team("team-a", { kubernetes: inCluster, ramet, runtime });
export { domain, registry };
