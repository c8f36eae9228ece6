import { clientApiLabels, clientApiName, gatewayLabels, gatewayName } from "../api/names/system-names.ts";
import { clientApiRights, gatewayRights } from "./http-server-rights.ts";
import { defined } from "../base/defined.ts";
import { gatewayAddressManifests } from "./gateway-address.ts";
import { exposedService, exposureManifests, gatewayTlsSecret, gatewayUrl } from "./gateway-exposure.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";
import {
  disruptionBudget,
  ingressPolicy,
  metricsArguments,
  metricsIngress,
  metricsService,
  serverDeployment,
} from "./server-deployment.ts";
import { type Rights, roles } from "./rights.ts";
import { type Server, serverArguments } from "./setting-values.ts";

type Options = InstallOptions<unknown, unknown>;

/** Returns the manifests of the gateways. All replicas serve traffic independently of each other. */
export function gatewayManifests(options: Options): Manifest[] {
  const { namespace, servedNamespaces, gateway = {}, clientApi } = options;
  const { domain, ca, exec = true } = gateway;
  const [url, tlsSecret] = [gatewayUrl(options), gatewayTlsSecret(options)];
  const hasTls = tlsSecret !== undefined;
  const set = {
    ...options,
    gateway: {
      ...gateway,
      ...(hasTls && { tlsCertificate: `${tlsPath}/tls.crt`, tlsKey: `${tlsPath}/tls.key` }),
      // The gateways resume paused sandboxes for traffic through the client API.
      ...(clientApi && { clientApi: `http://${clientApiName}.${namespace}.svc` }),
    },
  };
  return [
    ...httpServer(set, {
      name: gatewayName,
      labels: gatewayLabels,
      command: "gateway",
      rights: gatewayRights(exec, servedNamespaces),
      replicas: options.gatewayReplicas,
      port: 8080,
      // With TLS, the gateways serve nothing else.
      servicePort: hasTls ? { name: "https", port: 443 } : { name: "http", port: 80 },
      service: exposedService(options),
      // The delay, 20 s for requests in progress, and the exit of the process.
      terminationGracePeriodSeconds: 30,
      ...(hasTls && {
        container: { volumeMounts: [{ name: "tls", mountPath: tlsPath, readOnly: true }] },
        volumes: [{ name: "tls", secret: { secretName: tlsSecret } }],
      }),
    }),
    ...exposureManifests(options),
    ...(url === undefined ? [] : gatewayAddressManifests({ url, domain, ca })),
  ];
}

/** The kubelet replaces the files when the Secret changes, and the gateways read them every minute. */
const tlsPath = "/etc/ramet/tls";

/** Returns the manifests of the client API, if it is to be installed. All replicas answer requests independently of each other. */
export function clientApiManifests(options: Options): Manifest[] {
  const { clientApi, gateway, servedNamespaces } = options;
  if (clientApi === undefined) return [];
  // Without TLS, through the Service in the own namespace. The certificate has the name of the published address.
  const hasTls = gatewayTlsSecret(options) !== undefined;
  const domain = clientApi.domain ?? gateway?.domain;
  const inCluster = hasTls ? undefined : `http://${gatewayName}`;
  const set = { ...options, clientApi: { ...clientApi, ...defined({ domain, gateway: inCluster }) } };
  return httpServer(set, {
    name: clientApiName,
    labels: clientApiLabels,
    command: "client-api",
    rights: clientApiRights(servedNamespaces),
    replicas: clientApi.replicas,
    port: 8081,
    servicePort: { name: "http", port: 80 },
    // The delay, the longest operation of a client, and the exit of the process.
    terminationGracePeriodSeconds: 75,
  });
}

interface HttpServer {
  name: string;
  labels: Record<string, string>;
  command: Server;
  rights: Rights;
  replicas: unknown;
  port: number;
  servicePort: { name: string; port: number };
  service?: ReturnType<typeof exposedService>;
  terminationGracePeriodSeconds: number;
  container?: object;
  volumes?: readonly object[];
}

function httpServer(options: Options, { name, rights, servicePort, service = {}, ...server }: HttpServer): Manifest[] {
  const at = { name, namespace: options.namespace };
  const { labels, command, port } = server;
  const listening = ["--address", "0.0.0.0", "--port", String(port), "--shutdown-delay", String(shutdownDelaySeconds)];
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: at },
    ...roles(at, rights),
    serverDeployment({
      ...server,
      at,
      image: options.image,
      args: [...listening, ...metricsArguments, ...serverArguments(command, options)],
      readinessProbe: { httpGet: { path: "/readyz", port: "metrics" }, periodSeconds: 2 },
    }),
    disruptionBudget(at, labels),
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { ...at, labels, ...defined({ annotations: service.annotations }) },
      spec: { ...defined({ type: service.type }), selector: labels, ports: [{ ...servicePort, targetPort: "http" }] },
    },
    metricsService(at, labels),
    // Clients from anywhere, and readers of metrics.
    ingressPolicy(at, labels, [{ ports: [{ port: "http", protocol: "TCP" }] }, metricsIngress(options)]),
  ];
}

/** The time in which load balancers and kube-proxy notice that a Pod is terminating. */
const shutdownDelaySeconds = 5;
