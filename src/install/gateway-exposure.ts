import { gatewayName } from "../api/names/system-names.ts";
import { defined } from "../base/defined.ts";
import type { InstallOptions } from "./install-options.ts";
import type { Manifest } from "./manifest.ts";

type Exposed = Pick<InstallOptions<unknown, unknown>, "namespace" | "gateway" | "gatewayAnnotations">;
/** In a Pulumi program, the values are outputs. */
type Annotations = Record<string, string>;

/** The Secret that cert-manager makes. */
const certificateName = `${gatewayName}-tls`;
const externalDns = "external-dns.alpha.kubernetes.io/hostname";

/** Whether clients outside the cluster reach the Service itself, and not an Ingress or a Gateway in front of it. */
function isOwnService({ gateway = {} }: Exposed): boolean {
  return gateway.ingress === undefined && gateway.gatewayApi === undefined;
}

/** The Secret with which the gateways serve TLS. Undefined if something in front of them does. */
export function gatewayTlsSecret(options: Exposed): unknown {
  const { tlsSecret, tlsIssuer } = options.gateway ?? {};
  return tlsSecret ?? (tlsIssuer !== undefined && isOwnService(options) ? certificateName : undefined);
}

/** The address for users outside the cluster. */
export function gatewayUrl(options: Exposed): unknown {
  const { url, domain, gatewayApi, tlsIssuer } = options.gateway ?? {};
  if (url !== undefined || domain === undefined) return url;
  const isSecure = gatewayApi !== undefined || tlsIssuer !== undefined || gatewayTlsSecret(options) !== undefined;
  return changed(domain, (name) => `${isSecure ? "https" : "http"}://${name}`);
}

/** What the Service of the gateways has besides its ports: external-dns publishes the names in its annotation. */
export function exposedService(options: Exposed): { type?: unknown; annotations?: Annotations } {
  const { domain, service } = options.gateway ?? {};
  if (!isOwnService(options)) return defined({ type: service });
  const names = domain === undefined ? {} : { [externalDns]: changed(domain, (name) => `*.${name},${name}`) };
  const annotations = { ...names, ...options.gatewayAnnotations } as Annotations;
  return defined({ type: service, annotations: Object.keys(annotations).length > 0 ? annotations : undefined });
}

/** The objects that lead the domain to the gateways: of cert-manager, an ingress controller or the Gateway API. */
export function exposureManifests(options: Exposed): Manifest[] {
  const { domain, tlsIssuer, tlsSecret, ingress, gatewayApi } = options.gateway ?? {};
  if (domain === undefined) return [];
  const wildcard = changed(domain, (name) => `*.${name}`);
  const at = { name: gatewayName, namespace: options.namespace };
  const hosts = [wildcard, domain];
  const annotations = (options.gatewayAnnotations ?? {}) as Annotations;
  const port = tlsSecret === undefined ? 80 : 443;
  const objects: Manifest[] = [];
  if (tlsIssuer !== undefined && isOwnService(options)) {
    const issuerRef = { kind: "ClusterIssuer", name: tlsIssuer };
    const spec = { secretName: certificateName, dnsNames: hosts, issuerRef };
    objects.push({ apiVersion: "cert-manager.io/v1", kind: "Certificate", metadata: at, spec });
  }
  if (ingress !== undefined) {
    const backend = { service: { name: gatewayName, port: { number: port } } };
    const http = { paths: [{ path: "/", pathType: "Prefix", backend }] };
    const issuer = (tlsIssuer === undefined ? {} : { "cert-manager.io/cluster-issuer": tlsIssuer }) as Annotations;
    objects.push({
      apiVersion: "networking.k8s.io/v1",
      kind: "Ingress",
      metadata: { ...at, annotations: { ...issuer, ...annotations } },
      spec: {
        ingressClassName: ingress,
        rules: hosts.map((host) => ({ host, http })),
        ...(tlsIssuer !== undefined && { tls: [{ hosts, secretName: certificateName }] }),
      },
    });
  }
  if (gatewayApi !== undefined) {
    objects.push({
      apiVersion: "gateway.networking.k8s.io/v1",
      kind: "HTTPRoute",
      metadata: { ...at, annotations },
      spec: {
        parentRefs: [part(gatewayApi)],
        hostnames: hosts,
        rules: [{ backendRefs: [{ name: gatewayName, port }] }],
      },
    });
  }
  return objects;
}

/** A Gateway as `namespace/name` or `namespace/name/listener`. */
function part(reference: unknown): unknown {
  return changed(reference, (text) => {
    const [namespace, name, sectionName] = text.split("/");
    return { namespace, name, ...defined({ sectionName }) };
  });
}

/** Changes a text, or in a Pulumi program the output that will be one. */
function changed(value: unknown, change: (text: string) => unknown): unknown {
  if (typeof value === "string") return change(value);
  return (value as { apply: (change: (text: string) => unknown) => unknown }).apply(change);
}
