import { gatewayLabels as labels, gatewayName as name } from "../api/names/system-names.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import {
  disruptionBudget,
  metricsPort,
  metricsService,
  restrictedSecurityContext,
  serverResources,
  spreadOverNodes,
} from "./replicas.ts";
import { gatewayClusterRights, gatewaySystemRights, roles } from "./rights.ts";

type GatewayOptions = Pick<InstallOptions<unknown, unknown>, "namespace" | "image" | "gatewayReplicas">;

/** Returns the manifests of the gateways. All replicas serve traffic independently of each other. */
export function gatewayManifests({ namespace, image, gatewayReplicas }: GatewayOptions): Manifest[] {
  const at = { name, namespace };
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: at },
    ...roles(at, { everywhere: gatewayClusterRights, inSystem: gatewaySystemRights }),
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { ...at, labels },
      spec: {
        replicas: gatewayReplicas,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: pod(image) },
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
    networkPolicy(at),
  ];
}

const port = 8080;
/** The time in which load balancers and kube-proxy notice that a Pod is terminating. */
const shutdownDelaySeconds = 5;

function pod(image: unknown) {
  return {
    serviceAccountName: name,
    // The delay, 20 s for requests in progress, and the exit of the process.
    terminationGracePeriodSeconds: 30,
    securityContext: { runAsNonRoot: true, runAsUser: 65532, seccompProfile: { type: "RuntimeDefault" } },
    topologySpreadConstraints: spreadOverNodes(labels),
    containers: [
      {
        name: "gateway",
        image,
        args: [
          "gateway",
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

/** Allows clients from anywhere. Egress to the API server and the cells is not restricted. */
function networkPolicy(metadata: Manifest["metadata"]): Manifest {
  const ports = ["http", "metrics"].map((each) => ({ port: each, protocol: "TCP" }));
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata,
    spec: { podSelector: { matchLabels: labels }, policyTypes: ["Ingress"], ingress: [{ ports }] },
  };
}
