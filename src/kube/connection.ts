import { readFile } from "node:fs/promises";
import { readText } from "../base/read-text.ts";
import { defined } from "../base/defined.ts";
import { RametError, textOfError } from "../base/errors.ts";
import type { Clock } from "../base/clock.ts";

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
    ...defined({ ca }),
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

/** Credentials of a request: a bearer token, a client certificate (PEM) with its key, or both. */
export interface CredentialValues {
  token?: string;
  cert?: string;
  key?: string;
}

export interface Credentials {
  /** Whether `current` can return different values later. */
  readonly renewable: boolean;
  /**
   * Returns the current values. `fresh` is set after the API server rejected them: read them again instead of using the cache.
   */
  current(fresh: boolean): Promise<CredentialValues>;
}

export function staticCredentials(values: CredentialValues): Credentials {
  return { renewable: false, current: () => Promise.resolve(values) };
}

/**
 * A token in a file that is renewed externally, as the kubelet does for service accounts. It is read again once a minute, as in
 * client-go.
 */
export function tokenFileCredentials(path: string, clock: Clock): Credentials {
  let known: { token: string; readAt: number } | undefined;
  return {
    renewable: true,
    async current(fresh) {
      const now = clock.monotonicMilliseconds();
      if (known === undefined || fresh || now - known.readAt > tokenFileMilliseconds) {
        known = { token: await readToken(path), readAt: now };
      }
      return { token: known.token };
    },
  };
}

const tokenFileMilliseconds = 60_000;

/** The `exec` entry of a kubeconfig's user. */
interface ExecPlugin {
  apiVersion: string;
  command: string;
  args: string[];
  env: { name: string; value: string }[];
  installHint?: string;
  /** The cluster, passed to plugins that request it as `spec.cluster` of the ExecCredential. */
  cluster?: object;
}

/** Credentials that a program prints (`aws eks get-token`, `gke-gcloud-auth-plugin`, …), cached until they expire. */
export function execCredentials(plugin: ExecPlugin): Credentials {
  // Some plugins, GKE's among them, refuse to run without this variable, and client-node does not set it.
  const info = {
    apiVersion: plugin.apiVersion,
    kind: "ExecCredential",
    spec: { interactive: false, cluster: plugin.cluster },
  };
  const user = {
    name: "exec",
    exec: { ...plugin, env: [...plugin.env, { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }] },
  };
  let auth: ExecAuth | undefined;
  return {
    renewable: true,
    async current(fresh) {
      if (auth === undefined || fresh) auth = await newExecAuth();
      const options: { headers?: Record<string, unknown>; cert?: unknown; key?: unknown } = {};
      try {
        await auth.applyAuthentication(user, options);
      } catch (error) {
        throw execFailure(plugin, error);
      }
      const token = options.headers?.["Authorization"];
      return {
        ...(typeof token === "string" ? { token: token.replace(/^Bearer /, "") } : {}),
        ...(typeof options.cert === "string" ? { cert: options.cert } : {}),
        ...(typeof options.key === "string" ? { key: options.key } : {}),
      };
    },
  };
}

interface ExecAuth {
  applyAuthentication(user: { name: string }, options: object): Promise<void>;
}

/** Imports one file of client-node, because the package's index loads every generated model (docs/decisions/0002). */
async function newExecAuth(): Promise<ExecAuth> {
  const { ExecAuth } = await import("@kubernetes/client-node/dist/exec_auth.js");
  return new ExecAuth();
}

function execFailure(plugin: ExecPlugin, error: unknown): RametError {
  const why = textOfError(error).trim();
  return new RametError("Unauthorized", `The credential program ${plugin.command} failed: ${why}`, {
    hint: plugin.installHint ?? "Run the program in a terminal to see what is missing",
    cause: error,
  });
}

/** The token in a file. @throws RametError `Unauthorized` */
export async function readToken(path: string): Promise<string> {
  return (await readText(path, `the token file ${path}`, "Unauthorized")).trim();
}
