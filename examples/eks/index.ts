import * as kubernetes from "@pulumi/kubernetes";
import { Config, interpolate } from "@pulumi/pulumi";
import { Provider, RametRuntime, SnapshotStack } from "ramet";
import { cell, cluster, controllers, kubeconfig, ready } from "./cluster.ts";
import { checkpointKeys, team } from "./team.ts";

const config = new Config();
export const domain = config.require("domain");
const tag = config.require("tag");
const inCluster = new kubernetes.Provider("cluster", { kubeconfig });
const keys = checkpointKeys(inCluster, ready);

// Snapshots of volumes, and a private bucket for checkpoints with an identity that only the controllers have.
const stack = new SnapshotStack(
  "snapshots",
  {
    cloud: "eks",
    kubeconfig,
    eks: { clusterName: cluster.name, scope: "cluster", store: { bucket: config.require("bucket") } },
  },
  { provider: inCluster, dependsOn: ready },
);

const issuer = new kubernetes.apiextensions.CustomResource(
  "letsencrypt",
  {
    apiVersion: "cert-manager.io/v1",
    kind: "ClusterIssuer",
    metadata: { name: "letsencrypt" },
    spec: {
      acme: {
        server: "https://acme-v02.api.letsencrypt.org/directory",
        privateKeySecretRef: { name: "letsencrypt" },
        solvers: [{ dns01: { route53: {} } }],
      },
    },
  },
  { provider: inCluster, dependsOn: ready },
);

const runtime = new RametRuntime(
  "ramet",
  {
    mode: "install",
    kubeconfig,
    image: interpolate`${controllers}:${tag}`,
    cellImage: interpolate`${cell}:${tag}`,
    store: stack.store,
    encryption: { secret: keys.metadata.name },
    clientApi: {},
    gateway: {
      domain,
      tlsIssuer: "letsencrypt",
      service: "LoadBalancer",
      annotations: { "service.beta.kubernetes.io/aws-load-balancer-type": "nlb" },
    },
  },
  { provider: inCluster, dependsOn: [stack, issuer] },
);

// Push the images ramet and ramet-cell here.
export const registry = controllers;

const ramet = new Provider("ramet", { kubeconfig, namespace: "team-a" });
export const { apiKey, snapshot, url } = team("team-a", { kubernetes: inCluster, ramet, runtime });
