import { parseDuration } from "../base/duration.ts";
import { checkAlias, checkNetwork, checkOrigin, checkPort, list, number, off, on, text } from "./setting.ts";

const shutdownDelayHelp = "how long to accept connections after SIGTERM, so that load balancers can remove it";

export const httpServerSettings = {
  "gateway.port": number("--port <port>", "the port for HTTP and WebSocket connections; 0 opens a free port", {
    check: checkPort,
    default: 8080,
  }),
  "gateway.address": text("--address <ip>", "the IP address to listen on", { default: "127.0.0.1" }),
  "gateway.shutdownDelay": number("--shutdown-delay <seconds>", shutdownDelayHelp, { default: 0 }),
  "gateway.trustedProxies": list(
    "--trusted-proxy <cidr...>",
    "the networks of load balancers, whose X-Forwarded-For names the client (default: none)",
    {
      check: checkNetwork,
      schema: "Network",
      manifests: {
        flag: "--gateway-trusted-proxy <cidr...>",
        help: "the networks of load balancers in front of the gateways, whose X-Forwarded-For names the client (default: none)",
      },
    },
  ),
  "gateway.maxConnections": limit(
    "",
    "the limit for connections of all clients (default: 10000)",
    "a gateway's limit for connections (default: 10000)",
  ),
  "gateway.maxConnectionsPerClient": limit(
    "-per-client",
    "the limit for one client address, or one IPv6 /64 network (default: 2500)",
    "its limit for one client address, or one IPv6 /64 network (default: 2500)",
  ),
  "gateway.maxConnectionsPerNamespace": limit(
    "-per-namespace",
    "the limit for requests and upgraded connections to one namespace (default: 5000)",
    "its limit for requests and upgraded connections to one namespace (default: 5000)",
  ),
  "gateway.maxConnectionsPerSandbox": limit(
    "-per-sandbox",
    "the limit for requests and upgraded connections to one sandbox (default: 1000)",
    "its limit for requests and upgraded connections to one sandbox (default: 1000)",
  ),
  "gateway.acceptTokensByReviewOnly": on(
    "--accept-tokens-by-review-only",
    "ask the API server about every token, also about tokens that its service account keys did not sign",
    {
      manifests: {
        flag: "--gateway-accept-tokens-by-review-only",
        help: "let gateways ask the API server about every token, for tokens of other authenticators",
      },
    },
  ),
  "gateway.exec": off(
    "--no-exec",
    "accept tokens for gateways only; commands and files then also need the sandbox's own access token",
    {
      manifests: { flag: "--no-gateway-exec", help: "do not let clients enter sandboxes through the gateways" },
    },
  ),
  "gateway.tlsCertificate": text(
    "--tls-certificate <file>",
    "serve TLS with this certificate and its chain, in PEM (default: no TLS)",
  ),
  "gateway.tlsKey": text("--tls-key <file>", "the key of the certificate, in PEM"),
  "gateway.tlsOptional": on("--tls-optional", "also accept connections without TLS on the port"),
  "gateway.clientApi": text(
    "--client-api <url>",
    "the address of `ramet client-api`: proxy requests that name no sandbox to it (default: refuse them)",
    { check: checkOrigin },
  ),
  "gateway.tlsSecret": text(
    "--gateway-tls-secret <name>",
    "the Secret with the gateways' certificate (default: they serve without TLS)",
    { schema: "ObjectName" },
  ),
  "gateway.domain": text(
    "--gateway-domain <name>",
    "the domain below which sandboxes have host names, which DNS leads to the gateways (default: none)",
    { schema: "ObjectName" },
  ),
  "gateway.tlsIssuer": text(
    "--gateway-tls-issuer <name>",
    "the ClusterIssuer of cert-manager for certificates of the domain and all names below (default: none)",
    { schema: "ObjectName" },
  ),
  "gateway.service": text("--gateway-service <type>", "the type of the gateways' Service (default: ClusterIP)", {
    choices: ["ClusterIP", "NodePort", "LoadBalancer"],
    schema: "ServiceType",
  }),
  "gateway.ingress": text(
    "--gateway-ingress <class>",
    "make an Ingress of this class for the domain, which ends TLS (default: none)",
    { schema: "ObjectName" },
  ),
  "gateway.gatewayApi": text(
    "--gateway-route <namespace/name[/listener]>",
    "make an HTTPRoute of this Gateway for the domain, which ends TLS (default: none)",
    { schema: "GatewayReference", conflicts: ["gatewayIngress"] },
  ),
  "gateway.url": text(
    "--gateway-url <url>",
    "the gateways' address for users, which the cluster then publishes (default: none)",
    { schema: "GatewayUrl" },
  ),
  "gateway.ca": text(
    "--gateway-ca-file <file>",
    "the certificate authority of that address, PEM (default: the users' systems')",
    { schema: "Certificate" },
  ),
  "clientApi.port": number("--port <port>", "the port for HTTP connections; 0 opens a free port", {
    check: checkPort,
    default: 8081,
  }),
  "clientApi.address": text("--address <ip>", "the IP address to listen on", { default: "127.0.0.1" }),
  "clientApi.shutdownDelay": number("--shutdown-delay <seconds>", shutdownDelayHelp, { default: 0 }),
  "clientApi.replicas": number("--client-api-replicas <number>", "the number of client API replicas; 0 installs none", {
    schema: "Positive",
    default: 0,
  }),
  "clientApi.domain": text(
    "--domain <name>",
    "the domain of the sandboxes' host names (default: the clients' own setting)",
    {
      schema: "ObjectName",
      manifests: {
        flag: "--client-api-domain <name>",
        help: "the domain of sandboxes' host names (default: the clients' own setting)",
      },
    },
  ),
  "clientApi.gateway": text(
    "--gateway <url>",
    "a gateway, for uploads to sandboxes, their metrics and logs (default: the address that gateways publish)",
  ),
  "clientApi.templateAliases": list(
    "--template-alias <name=template...>",
    "names that clients use for templates, sets or snapshots, such as base=python",
    { check: checkAlias },
  ),
  "clientApi.maxTimeout": text(
    "--max-timeout <duration>",
    "the longest timeout that a client can request (default: 30d)",
    { check: (given: string) => parseDuration(given) },
  ),
};

/** The settings of each command by the same rules as `commands` in settings.ts. */
export const httpServerCommands = {
  gateway: [
    "gateway.port gateway.address gateway.shutdownDelay",
    "gateway.maxConnections gateway.maxConnectionsPerClient",
    "gateway.maxConnectionsPerNamespace gateway.maxConnectionsPerSandbox",
    "gateway.trustedProxies gateway.acceptTokensByReviewOnly",
    "gateway.tlsCertificate gateway.tlsKey gateway.tlsOptional gateway.clientApi gateway.exec",
  ],
  "client-api": [
    "clientApi.port clientApi.address clientApi.domain clientApi.gateway",
    "clientApi.templateAliases clientApi.maxTimeout clientApi.shutdownDelay",
  ],
  manifests: [
    "clientApi.replicas clientApi.domain gateway.domain gateway.tlsIssuer gateway.tlsSecret",
    "gateway.service gateway.ingress gateway.gatewayApi gateway.url gateway.ca gateway.exec",
    "metricsNamespace metricsFromAllNamespaces monitoring",
    "gateway.trustedProxies gateway.maxConnections gateway.maxConnectionsPerClient",
    "gateway.maxConnectionsPerNamespace gateway.maxConnectionsPerSandbox gateway.acceptTokensByReviewOnly",
  ],
} as const;

/** @param suffix of the flag: `-per-client` */
function limit(suffix: string, help: string, manifestsHelp: string) {
  const flag = `max-connections${suffix} <number>`;
  const manifests = { flag: `--gateway-${flag}`, help: manifestsHelp };
  return number(`--${flag}`, help, { schema: "Positive", manifests });
}
