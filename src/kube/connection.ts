import { readFile } from "node:fs/promises";
import { RametError } from "../base/errors.ts";
import type { Clock } from "../base/clock.ts";
import { staticCredentials, tokenFileCredentials, type Credentials } from "./credentials.ts";

/** How to reach one API server, and the user to authenticate as. */
export interface Connection {
  /** Such as `https://10.0.0.1:6443`. */
  server: string;
  /** The certificate authority that signed the server's certificate, PEM. @default the system's certificate authorities */
  ca?: string;
  insecureSkipTlsVerify?: boolean;
  /** The name to expect in the server's certificate. @default the host of `server` */
  tlsServerName?: string;
  /** `http:` or `https:`. */
  proxyUrl?: string;
  /** The namespace of requests that name none. */
  namespace: string;
  credentials: Credentials;
  /** The user to impersonate. @default the user that the credentials identify */
  impersonate?: Impersonation;
}

/** https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation */
export interface Impersonation {
  user: string;
  uid?: string;
  groups: readonly string[];
  extra: Readonly<Record<string, readonly string[]>>;
}

export interface ExplicitConnection {
  server: string;
  /** PEM texts. */
  ca?: string;
  cert?: string;
  key?: string;
  token?: string;
  namespace?: string;
}

export function explicitConnection({ server, ca, namespace, ...values }: ExplicitConnection): Connection {
  return {
    server,
    ...(ca === undefined ? {} : { ca }),
    namespace: namespace ?? "default",
    credentials: staticCredentials(values),
  };
}

export interface InClusterOptions {
  environment: NodeJS.ProcessEnv;
  clock: Clock;
  /** @default /var/run/secrets/kubernetes.io/serviceaccount */
  directory?: string;
}

/**
 * The connection of a Pod, from the service account that the kubelet mounts and the two variables that it sets
 * (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
 */
export async function inClusterConnection(options: InClusterOptions): Promise<Connection> {
  const directory = options.directory ?? "/var/run/secrets/kubernetes.io/serviceaccount";
  const host = options.environment["KUBERNETES_SERVICE_HOST"];
  const port = options.environment["KUBERNETES_SERVICE_PORT"] ?? "443";
  if (host === undefined) {
    throw new RametError(
      "InvalidArgument",
      "Cannot connect to Kubernetes: this process does not run in a Pod, and there is no kubeconfig",
      { hint: "Set --kubeconfig or KUBECONFIG, or start a local cluster with: ramet local up" },
    );
  }
  const [ca, namespace] = await Promise.all([
    readFile(`${directory}/ca.crt`, "utf8"),
    readFile(`${directory}/namespace`, "utf8").catch(() => "default"),
  ]);
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    ca,
    namespace: namespace.trim(),
    credentials: tokenFileCredentials(`${directory}/token`, options.clock),
  };
}
