import { readText } from "../base/read-text.ts";
import { resolve } from "node:path";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { systemClock, type Clock } from "../base/clock.ts";
import {
  type Connection,
  type Impersonation,
  execCredentials,
  staticCredentials,
  tokenFileCredentials,
  type Credentials,
  type CredentialValues,
} from "./connection.ts";
import {
  entryNamed,
  readKubeconfig,
  type KubeconfigCluster,
  type KubeconfigSource,
  type KubeconfigUser,
  type MergedKubeconfig,
} from "./kubeconfig-files.ts";

/** Which kubeconfig to read, and which of its contexts to use. */
export type KubeconfigOptions = KubeconfigSource & {
  /** @default the current context */
  context?: string;
  /** Replaces the context's cluster. @default the context's cluster */
  cluster?: string;
  clock?: Clock;
};

/**
 * Reads the connection of one context of a kubeconfig: inline data and files, client certificates, tokens, token
 * files, exec plugins and impersonation. Relative paths are relative to the file that contains them, as in kubectl,
 * and in a text to the working directory.
 *
 * @throws RametError `NotFound` if the file or the context does not exist, `InvalidArgument` if the file is not a
 *   kubeconfig or has a field that Ramet does not support (user name and password, and the auth providers that
 *   Kubernetes removed in 1.26)
 */
export async function connectionFromKubeconfig(options: KubeconfigOptions): Promise<Connection> {
  const config = await readKubeconfig(options);
  const { origin } = config;
  const context = contextOf(config, options);
  const clusterName = options.cluster ?? context.cluster;
  const { cluster, directory } = entryNamed(config.clusters, clusterName, { noun: "cluster", origin });
  const user =
    context.user === undefined ? anonymous : entryNamed(config.users, context.user, { noun: "user", origin });
  rejectUnsupported(cluster, user.user, origin);
  const ca = await inlineOrFile(cluster["certificate-authority-data"], cluster["certificate-authority"], directory);
  const impersonate = impersonationOf(user.user, origin);
  return {
    server: cluster.server.replace(/\/+$/, ""),
    namespace: namespaceOf(context) ?? "default",
    credentials: await credentialsOf(user, { cluster, ca }, options.clock ?? systemClock),
    ...defined({
      impersonate,
      ca,
      insecureSkipTlsVerify: cluster["insecure-skip-tls-verify"],
      tlsServerName: cluster["tls-server-name"],
      proxyUrl: cluster["proxy-url"],
    }),
  };
}

/** The namespace of one context of a kubeconfig; undefined if it sets none. @throws as `connectionFromKubeconfig` */
export async function namespaceFromKubeconfig(options: KubeconfigOptions): Promise<string | undefined> {
  return namespaceOf(contextOf(await readKubeconfig(options), options));
}

function contextOf(config: MergedKubeconfig, { context }: KubeconfigOptions) {
  const { origin } = config;
  return entryNamed(config.contexts, context ?? config["current-context"], { noun: "context", origin }).context;
}

function namespaceOf({ namespace }: { namespace?: string | undefined }): string | undefined {
  return namespace === "" ? undefined : namespace;
}

const anonymous: MergedKubeconfig["users"][number] = { name: "", user: {}, directory: "." };

function rejectUnsupported(cluster: KubeconfigCluster, user: KubeconfigUser, origin: string): void {
  const login = (["username", "password", "auth-provider"] as const).find((field) => user[field] !== undefined);
  if (login !== undefined) {
    throw unsupported(origin, `the user's ${login}`, "Use a token, a client certificate or an exec plugin");
  }
  if (user.exec?.interactiveMode === "Always") {
    throw unsupported(origin, 'the exec plugin\'s interactiveMode "Always"', "Use a plugin that needs no terminal");
  }
  const proxy = cluster["proxy-url"];
  if (proxy !== undefined && !/^https?:\/\//.test(proxy)) {
    throw unsupported(origin, `the cluster's proxy-url ${JSON.stringify(proxy)}`, "Use an http or https proxy");
  }
}

function unsupported(origin: string, what: string, hint: string): RametError {
  return new RametError("InvalidArgument", `Cannot use the kubeconfig ${origin}: Ramet does not support ${what}`, {
    hint,
  });
}

function impersonationOf(user: KubeconfigUser, origin: string): Impersonation | undefined {
  const { as, "as-uid": uid } = user;
  const groups = user["as-groups"] ?? [];
  const extra = user["as-user-extra"] ?? {};
  if (as !== undefined && as !== "") return { user: as, groups, extra, ...defined({ uid }) };
  if ((uid ?? "") === "" && groups.length === 0 && Object.keys(extra).length === 0) return undefined;
  throw new RametError(
    "InvalidArgument",
    `Cannot use the kubeconfig ${origin}: it has as-uid, as-groups or as-user-extra without as`,
    { hint: "Add the user to impersonate as: as" },
  );
}

interface ClusterAccess {
  cluster: KubeconfigCluster;
  /** PEM. */
  ca: string | undefined;
}

async function credentialsOf(
  { user, directory }: MergedKubeconfig["users"][number],
  access: ClusterAccess,
  clock: Clock,
): Promise<Credentials> {
  const cert = await inlineOrFile(user["client-certificate-data"], user["client-certificate"], directory);
  const key = await inlineOrFile(user["client-key-data"], user["client-key"], directory);
  const certificate: CredentialValues = defined({ cert, key });
  if (user.exec !== undefined && user.exec !== null) {
    return withCertificate(certificate, execCredentials(pluginOf(user.exec, directory, access)));
  }
  if (user.tokenFile !== undefined) {
    return withCertificate(certificate, tokenFileCredentials(resolve(directory, user.tokenFile), clock));
  }
  return staticCredentials({ ...certificate, ...defined({ token: user.token }) });
}

/** Adds the user's own certificate to renewable credentials, which may bring a newer one. */
function withCertificate(certificate: CredentialValues, renewable: Credentials): Credentials {
  return {
    renewable: renewable.renewable,
    current: async (fresh) => ({ ...certificate, ...(await renewable.current(fresh)) }),
  };
}

function pluginOf(exec: NonNullable<KubeconfigUser["exec"]>, directory: string, access: ClusterAccess) {
  const { apiVersion, command, args, env, installHint, provideClusterInfo } = exec;
  return {
    apiVersion,
    // A path with a slash is relative to the kubeconfig; a bare name is searched for in PATH.
    command: command.includes("/") ? resolve(directory, command) : command,
    args: args ?? [],
    env: env ?? [],
    ...defined({ installHint }),
    ...(provideClusterInfo === true && { cluster: execCluster(access) }),
  };
}

/** `spec.cluster` of an ExecCredential (https://kubernetes.io/docs/reference/config-api/client-authentication.v1/). */
function execCluster({ cluster, ca }: ClusterAccess): Record<string, unknown> {
  const { extensions } = cluster;
  return {
    server: cluster.server,
    "tls-server-name": cluster["tls-server-name"],
    "insecure-skip-tls-verify": cluster["insecure-skip-tls-verify"],
    "certificate-authority-data": ca === undefined ? undefined : Buffer.from(ca).toString("base64"),
    "proxy-url": cluster["proxy-url"],
    config: extensions?.find(({ name }) => name === "client.authentication.k8s.io/exec")?.extension,
  };
}

async function inlineOrFile(inline: string | undefined, file: string | undefined, directory: string) {
  if (inline !== undefined && inline !== "") return Buffer.from(inline, "base64").toString("utf8");
  if (file === undefined || file === "") return undefined;
  const path = resolve(directory, file);
  return readText(path, `${path}, which the kubeconfig refers to`);
}
