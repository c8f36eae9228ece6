import { clientApiLabels as labels, clientApiName as name, gatewayName } from "../api/names/system-names.ts";
import { clientApiRights } from "./client-api-rights.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import { metricsIngress, type MetricsReaders } from "./metrics-readers.ts";
import {
  disruptionBudget,
  metricsPort,
  metricsService,
  restrictedSecurityContext,
  serverResources,
  spreadOverNodes,
} from "./replicas.ts";
import { roles } from "./rights.ts";
import { servedFlags } from "./server-flags.ts";

type ClientApiOptions = Pick<
  InstallOptions<unknown, unknown>,
  "namespace" | "image" | "servedNamespaces" | "clientApi" | "gateway"
> &
  MetricsReaders<unknown>;

/** Returns the manifests of the client API, if it is to be installed. All replicas answer requests independently of each other. */
export function clientApiManifests(options: ClientApiOptions): Manifest[] {
  const { namespace, image, servedNamespaces, clientApi, gateway, ...readers } = options;
  if (clientApi === undefined) return [];
  const at = { name, namespace };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: at },
    ...roles(at, clientApiRights(servedNamespaces)),
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { ...at, labels },
      spec: {
        replicas: clientApi.replicas,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: pod(image, [...servedFlags(servedNamespaces), ...settingFlags(clientApi), ...gatewayFlags(gateway)]),
        },
      },
    },
    disruptionBudget(at, labels),
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { ...at, labels },
      spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: "http" }] },
    },
    metricsService(at, labels),
    networkPolicy(at, readers),
  ];
}

const port = 8081;
/** The time in which load balancers and kube-proxy notice that a Pod is terminating. */
const shutdownDelaySeconds = 5;

function settingFlags({ domain }: NonNullable<ClientApiOptions["clientApi"]>): unknown[] {
  return domain === undefined ? [] : ["--domain", domain];
}

/** Without TLS, through the Service in the own namespace. The certificate has the name of the published address. */
function gatewayFlags(gateway: ClientApiOptions["gateway"]): unknown[] {
  return gateway?.tlsSecret === undefined ? ["--gateway", `http://${gatewayName}`] : [];
}

function pod(image: unknown, flags: readonly unknown[]) {
  return {
    serviceAccountName: name,
    // The delay, the longest operation of a client, and the exit of the process.
    terminationGracePeriodSeconds: 75,
    securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: "RuntimeDefault" } },
    topologySpreadConstraints: spreadOverNodes(labels),
    containers: [
      {
        name: "client-api",
        image,
        args: [
          "client-api",
          "--address",
          "0.0.0.0",
          "--port",
          String(port),
          "--shutdown-delay",
          String(shutdownDelaySeconds),
          "--metrics-port",
          String(metricsPort),
          "--metrics-address",
          "0.0.0.0",
          ...flags,
        ],
        ports: [
          { name: "http", containerPort: port },
          { name: "metrics", containerPort: metricsPort },
        ],
        livenessProbe: { httpGet: { path: "/livez", port: "metrics" }, timeoutSeconds: 5 },
        readinessProbe: { httpGet: { path: "/readyz", port: "metrics" }, periodSeconds: 2 },
        resources: serverResources,
        securityContext: restrictedSecurityContext,
      },
    ],
  };
}

/** Allows clients from anywhere, and readers of metrics. */
function networkPolicy(metadata: Manifest["metadata"], readers: MetricsReaders<unknown>): Manifest {
  const http = { ports: [{ port: "http", protocol: "TCP" }] };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata,
    spec: {
      podSelector: { matchLabels: labels },
      policyTypes: ["Ingress"],
      ingress: [http, metricsIngress(readers)],
    },
  };
}
