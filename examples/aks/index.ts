import * as kubernetes from "@pulumi/kubernetes";
import { Config, interpolate } from "@pulumi/pulumi";
import { Provider, RametRuntime, SnapshotStack } from "ramet";
import {
  addressName,
  cluster,
  domain,
  group,
  issuerUrl,
  joinsSubnet,
  kubeconfig,
  location,
  registryHost,
  subscriptionId,
} from "./cluster.ts";
import { checkpointKeys, team } from "./team.ts";

const config = new Config();
const tag = config.require("tag");
const inCluster = new kubernetes.Provider("cluster", { kubeconfig });
const keys = checkpointKeys(inCluster, cluster);

// Snapshots of volumes, and a private storage account with an identity that only the controllers have.
const stack = new SnapshotStack(
  "snapshots",
  {
    cloud: "aks",
    kubeconfig,
    classes: [{ driver: "disk.csi.azure.com", azureDisk: { instantAccessMinutes: 60 } }],
    aks: {
      store: {
        account: config.require("storageAccount"),
        resourceGroup: group.name,
        location,
        subscriptionId: subscriptionId ?? config.require("subscriptionId"),
        issuerUrl,
      },
    },
  },
  { provider: inCluster, dependsOn: cluster },
);

// A certificate for the domain and all names below it.
const certificate = new kubernetes.core.v1.Secret(
  "gateway-tls",
  {
    metadata: { name: "gateway-tls", namespace: keys.metadata.namespace },
    type: "kubernetes.io/tls",
    stringData: { "tls.crt": config.require("certificate"), "tls.key": config.requireSecret("certificateKey") },
  },
  { provider: inCluster, dependsOn: keys },
);

const runtime = new RametRuntime(
  "ramet",
  {
    mode: "install",
    kubeconfig,
    image: interpolate`${registryHost}/ramet:${tag}`,
    cellImage: interpolate`${registryHost}/ramet-cell:${tag}`,
    store: stack.store,
    encryption: { secret: keys.metadata.name },
    clientApi: {},
    gateway: {
      domain,
      tlsSecret: certificate.metadata.name,
      service: "LoadBalancer",
      annotations: { "service.beta.kubernetes.io/azure-pip-name": addressName },
    },
  },
  { provider: inCluster, dependsOn: [stack, joinsSubnet] },
);

// Push the images ramet and ramet-cell here.
export const registry = registryHost;

const ramet = new Provider("ramet", { kubeconfig, namespace: "team-a" });
export const { apiKey, snapshot, url } = team("team-a", { kubernetes: inCluster, ramet, runtime });
export { domain };
