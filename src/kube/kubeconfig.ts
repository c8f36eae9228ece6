import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import * as z from "zod";
import { RametError } from "../base/errors.ts";
import { systemClock, type Clock } from "../base/clock.ts";
import type { Connection } from "./connection.ts";
import {
  execCredentials,
  staticCredentials,
  tokenFileCredentials,
  type Credentials,
  type CredentialValues,
} from "./credentials.ts";

/** Which kubeconfig, and what of it. */
export type KubeconfigOptions = KubeconfigSource & {
  /** @default the current context */
  context?: string;
  /** In the place of the context's. @default the context's */
  cluster?: string;
  clock?: Clock;
};

/** Of several files, what the first of them says of a name counts, as it does for kubectl. A text may stand for a file. */
export type KubeconfigSource = { path: string | readonly string[] } | { text: string };

/**
 * Reads the connection of one context of a kubeconfig: inline data and files, client certificates, tokens, token
 * files and exec plugins. Relative paths are relative to their file, as they are for kubectl; those of a text to the working folder.
 *
 * @throws RametError `NotFound` without such a file or context, `InvalidArgument` if the file is no kubeconfig or asks
 *   for something that is not supported (user name and password, and the auth providers that Kubernetes removed in 1.26)
 */
export async function connectionFromKubeconfig(options: KubeconfigOptions): Promise<Connection> {
  const config = await readKubeconfig(options);
  const context = contextIn(config, options);
  const clusterName = options.cluster ?? context.cluster;
  const { cluster, directory } = named(config.clusters, clusterName, "cluster", config.origin);
  const user = context.user === undefined ? nobody : named(config.users, context.user, "user", config.origin);
  const ca = await inlineOrFile(cluster["certificate-authority-data"], cluster["certificate-authority"], directory);
  return {
    server: cluster.server.replace(/\/+$/, ""),
    namespace: context.namespace ?? "default",
    credentials: await credentialsOf(user.user, user.directory, options.clock ?? systemClock),
    ...(ca === undefined ? {} : { ca }),
    ...(cluster["insecure-skip-tls-verify"] === true ? { insecureSkipTlsVerify: true } : {}),
    ...(cluster["tls-server-name"] === undefined ? {} : { tlsServerName: cluster["tls-server-name"] }),
    ...(cluster["proxy-url"] === undefined ? {} : { proxyUrl: cluster["proxy-url"] }),
  };
}

/** The namespace of one context of a kubeconfig; undefined where that has none. @throws as `connectionFromKubeconfig` */
export async function namespaceFromKubeconfig(options: KubeconfigOptions): Promise<string | undefined> {
  return contextIn(await readKubeconfig(options), options).namespace;
}

function contextIn(config: Merged, { context }: KubeconfigOptions) {
  return named(config.contexts, context ?? config["current-context"], "context", config.origin).context;
}

const User = z.looseObject({
  token: z.string().optional(),
  tokenFile: z.string().optional(),
  "client-certificate": z.string().optional(),
  "client-certificate-data": z.string().optional(),
  "client-key": z.string().optional(),
  "client-key-data": z.string().optional(),
  exec: z
    .looseObject({
      apiVersion: z.string(),
      command: z.string().min(1),
      args: z.array(z.string()).nullish(),
      env: z.array(z.object({ name: z.string(), value: z.string() })).nullish(),
      installHint: z.string().optional(),
    })
    .optional(),
  username: z.string().optional(),
  "auth-provider": z.unknown().optional(),
});
type User = z.infer<typeof User>;

const Kubeconfig = z.looseObject({
  "current-context": z.string().default(""),
  contexts: lists(
    z.object({
      name: z.string(),
      context: z.looseObject({ cluster: z.string(), user: z.string().optional(), namespace: z.string().optional() }),
    }),
  ),
  clusters: lists(
    z.object({
      name: z.string(),
      cluster: z.looseObject({
        server: z.url(),
        "certificate-authority": z.string().optional(),
        "certificate-authority-data": z.string().optional(),
        "insecure-skip-tls-verify": z.boolean().optional(),
        "tls-server-name": z.string().optional(),
        "proxy-url": z.string().optional(),
      }),
    }),
  ),
  users: lists(z.object({ name: z.string(), user: User.nullish().transform((user) => user ?? {}) })),
});
type Kubeconfig = z.infer<typeof Kubeconfig>;

/** Files that are merged need not have all of them. */
function lists<T extends z.ZodType>(entry: T) {
  return z
    .array(entry)
    .nullish()
    .transform((entries) => entries ?? []);
}

/** Of several files: the entries of all of them in their order, each with the folder that its relative paths are relative to. */
interface Merged extends Pick<Kubeconfig, "current-context" | "contexts"> {
  clusters: (Kubeconfig["clusters"][number] & { directory: string })[];
  users: (Kubeconfig["users"][number] & { directory: string })[];
  /** What to call it in messages. */
  origin: string;
}

async function readKubeconfig(source: KubeconfigSource): Promise<Merged> {
  if ("text" in source) return merged("given as text", [{ ...parsed(source.text, "given as text"), directory: "." }]);
  const paths = [source.path].flat();
  const read = async (path: string) => ({ ...parsed(await textOf(path), path), directory: dirname(resolve(path)) });
  return merged(paths.join(" and "), await Promise.all(paths.map(read)));
}

function merged(origin: string, configs: readonly (Kubeconfig & { directory: string })[]): Merged {
  return {
    origin,
    "current-context": configs.map((one) => one["current-context"]).find((name) => name !== "") ?? "",
    contexts: configs.flatMap(({ contexts }) => contexts),
    clusters: configs.flatMap(({ clusters, directory }) => clusters.map((one) => ({ ...one, directory }))),
    users: configs.flatMap(({ users, directory }) => users.map((one) => ({ ...one, directory }))),
  };
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new RametError("NotFound", `The kubeconfig ${path} cannot be read: ${String(error)}`, { cause: error });
  }
}

function parsed(text: string, origin: string): Kubeconfig {
  try {
    return Kubeconfig.parse(parse(text) ?? {});
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    throw new RametError("InvalidArgument", `The kubeconfig ${origin} is not legal: ${why}`, { cause: error });
  }
}

function named<T extends { name: string }>(entries: readonly T[], name: string, what: string, origin: string): T {
  const found = entries.find((entry) => entry.name === name);
  if (found !== undefined) return found;
  const known = entries.map((entry) => entry.name).join(", ");
  throw new RametError("NotFound", `The kubeconfig ${origin} has no ${what} named "${name}"`, {
    hint: known === "" ? `It has no ${what} at all.` : `It has: ${known}.`,
  });
}

async function credentialsOf(user: User, directory: string, clock: Clock): Promise<Credentials> {
  if (user.exec !== undefined) {
    const { apiVersion, command, args, env, installHint } = user.exec;
    return execCredentials({
      apiVersion,
      // A path with a slash is relative to the kubeconfig; a bare name is looked for in PATH.
      command: command.includes("/") ? resolve(directory, command) : command,
      args: args ?? [],
      env: env ?? [],
      ...(installHint === undefined ? {} : { installHint }),
    });
  }
  if (user.tokenFile !== undefined) return tokenFileCredentials(resolve(directory, user.tokenFile), clock);
  if (user.username !== undefined || user["auth-provider"] !== undefined) {
    throw new RametError("InvalidArgument", "The kubeconfig's user logs in with a password or an auth-provider", {
      hint: "Use a token, a client certificate or an exec plugin.",
    });
  }
  const cert = await inlineOrFile(user["client-certificate-data"], user["client-certificate"], directory);
  const key = await inlineOrFile(user["client-key-data"], user["client-key"], directory);
  const values: CredentialValues = {};
  if (user.token !== undefined) values.token = user.token;
  if (cert !== undefined) values.cert = cert;
  if (key !== undefined) values.key = key;
  return staticCredentials(values);
}

async function inlineOrFile(inline: string | undefined, file: string | undefined, directory: string) {
  if (inline !== undefined && inline !== "") return Buffer.from(inline, "base64").toString("utf8");
  if (file === undefined || file === "") return undefined;
  const path = resolve(directory, file);
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new RametError("NotFound", `The kubeconfig names ${path}, which cannot be read: ${String(error)}`, {
      cause: error,
    });
  }
}

const nobody: Merged["users"][number] = { name: "", user: {}, directory: "." };
