import { clientApiName, gatewayLabels as labels, gatewayName as name } from "../api/names/system-names.ts";
import { gatewayLimits, type GatewaySettings, type InstallOptions } from "./install-options.ts";
import { gatewayAddressManifests } from "./gateway-address.ts";
import { gatewayRights } from "./gateway-rights.ts";
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

type GatewayOptions = Pick<
  InstallOptions<unknown, unknown>,
  "namespace" | "image" | "gatewayReplicas" | "servedNamespaces" | "gateway" | "clientApi"
> &
  MetricsReaders<unknown>;

/** Returns the manifests of the gateways. All replicas serve traffic independently of each other. */
export function gatewayManifests({
  namespace,
  image,
  gatewayReplicas,
  servedNamespaces,
  gateway,
  clientApi,
  ...readers
}: GatewayOptions): Manifest[] {
  const at = { name, namespace };
  const { url, ca, exec = true, tlsSecret } = gateway ?? {};
  const flags = [...servedFlags(servedNamespaces), ...settingFlags(gateway ?? {}), ...clientApiFlags(at, clientApi)];
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: at },
    ...roles(at, gatewayRights(exec, servedNamespaces)),
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { ...at, labels },
      spec: {
        replicas: gatewayReplicas,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: pod(image, flags, tlsSecret) },
      },
    },
    disruptionBudget(at, labels),
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { ...at, labels },
      spec: { selector: labels, ports: [servicePort(tlsSecret !== undefined)] },
    },
    metricsService(at, labels),
    networkPolicy(at, readers),
    ...(url === undefined ? [] : gatewayAddressManifests({ url, ca })),
  ];
}

const port = 8080;

/** With TLS, the gateways serve nothing else. */
function servicePort(tls: boolean) {
  return tls ? { name: "https", port: 443, targetPort: "http" } : { name: "http", port: 80, targetPort: "http" };
}
/** The time in which load balancers and kube-proxy notice that a Pod is terminating. */
const shutdownDelaySeconds = 5;

function pod(image: unknown, flags: readonly unknown[], tlsSecret: unknown) {
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
        ...(tlsSecret !== undefined && { volumeMounts: [{ name: "tls", mountPath: tlsPath, readOnly: true }] }),
      },
    ],
    ...(tlsSecret !== undefined && { volumes: [{ name: "tls", secret: { secretName: tlsSecret } }] }),
  };
}

/** The kubelet replaces the files when the Secret changes, and the gateways read them every minute. */
const tlsPath = "/etc/ramet/tls";

function settingFlags(settings: GatewaySettings<unknown, unknown>): unknown[] {
  const { trustedProxies = [], acceptTokensByReviewOnly = false, exec = true, tlsSecret } = settings;
  const limits = gatewayLimits.map((limit) => ({ limit, value: settings[limit] }));
  return [
    ...trustedProxies.flatMap((network) => ["--trusted-proxy", network]),
    ...limits.flatMap(({ limit, value }) => (value === undefined ? [] : [flagOf(limit), argumentOf(value)])),
    ...(acceptTokensByReviewOnly ? ["--accept-tokens-by-review-only"] : []),
    ...(exec ? [] : ["--no-exec"]),
    ...(tlsSecret === undefined ? [] : ["--tls-certificate", `${tlsPath}/tls.crt`, "--tls-key", `${tlsPath}/tls.key`]),
  ];
}

/** The gateways resume paused sandboxes for traffic through the client API. */
function clientApiFlags({ namespace }: Pick<GatewayOptions, "namespace">, clientApi: unknown): unknown[] {
  return clientApi === undefined ? [] : ["--client-api", `http://${clientApiName}.${namespace}.svc`];
}

function flagOf(setting: string): string {
  return `--${setting.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** A container's arguments are texts. The value of a Pulumi component is an output of text. */
function argumentOf(value: unknown): unknown {
  return typeof value === "number" ? String(value) : value;
}

/** Allows clients from anywhere, and readers of metrics. Egress to the API server and the cells is not restricted. */
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
