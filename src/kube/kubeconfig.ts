import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { RametError } from "../api/errors.ts";
import { systemClock, type Clock } from "./clock.ts";
import type { Connection } from "./connection.ts";
import {
  execCredentials,
  staticCredentials,
  tokenFileCredentials,
  type Credentials,
  type CredentialValues,
} from "./credentials.ts";

export interface KubeconfigOptions {
  path: string;
  /** @default the file's current context */
  context?: string;
  clock?: Clock;
}

/**
 * Reads the connection of one context of a kubeconfig file: inline data and files, client certificates, tokens, token
 * files and exec plugins. Relative paths are relative to the file, as they are for kubectl.
 *
 * @throws RametError `NotFound` without such a file or context, `InvalidArgument` if the file is no kubeconfig or asks
 *   for something that is not supported (user name and password, and the auth providers that Kubernetes removed in 1.26)
 */
export async function connectionFromKubeconfig(options: KubeconfigOptions): Promise<Connection> {
  const config = await readKubeconfig(options.path);
  const contextName = options.context ?? config["current-context"];
  const context = named(config.contexts, contextName, "context", options.path).context;
  const cluster = named(config.clusters, context.cluster, "cluster", options.path).cluster;
  const user = context.user === undefined ? {} : named(config.users, context.user, "user", options.path).user;

  const folder = dirname(resolve(options.path));
  const ca = await inlineOrFile(cluster["certificate-authority-data"], cluster["certificate-authority"], folder);
  return {
    server: cluster.server.replace(/\/+$/, ""),
    namespace: context.namespace ?? "default",
    credentials: await credentialsOf(user, folder, options.clock ?? systemClock),
    ...(ca === undefined ? {} : { ca }),
    ...(cluster["insecure-skip-tls-verify"] === true ? { insecureSkipTlsVerify: true } : {}),
    ...(cluster["tls-server-name"] === undefined ? {} : { tlsServerName: cluster["tls-server-name"] }),
    ...(cluster["proxy-url"] === undefined ? {} : { proxyUrl: cluster["proxy-url"] }),
  };
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
  contexts: z.array(
    z.object({
      name: z.string(),
      context: z.looseObject({ cluster: z.string(), user: z.string().optional(), namespace: z.string().optional() }),
    }),
  ),
  clusters: z.array(
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
  users: z.array(z.object({ name: z.string(), user: User.nullish().transform((user) => user ?? {}) })).default([]),
});

async function readKubeconfig(path: string): Promise<z.infer<typeof Kubeconfig>> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    throw new RametError("NotFound", `The kubeconfig ${path} cannot be read: ${String(error)}`, { cause: error });
  }
  try {
    return Kubeconfig.parse(parse(text));
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : String(error);
    throw new RametError("InvalidArgument", `The kubeconfig ${path} is not legal: ${why}`, { cause: error });
  }
}

function named<T extends { name: string }>(entries: readonly T[], name: string, what: string, path: string): T {
  const found = entries.find((entry) => entry.name === name);
  if (found !== undefined) return found;
  const known = entries.map((entry) => entry.name).join(", ");
  throw new RametError("NotFound", `The kubeconfig ${path} has no ${what} named "${name}"`, {
    hint: known === "" ? `It has no ${what} at all.` : `It has: ${known}.`,
  });
}

async function credentialsOf(user: User, folder: string, clock: Clock): Promise<Credentials> {
  if (user.exec !== undefined) {
    const { apiVersion, command, args, env, installHint } = user.exec;
    return execCredentials({
      apiVersion,
      // A path with a slash is relative to the kubeconfig; a bare name is looked for in PATH.
      command: command.includes("/") ? resolve(folder, command) : command,
      args: args ?? [],
      env: env ?? [],
      ...(installHint === undefined ? {} : { installHint }),
    });
  }
  if (user.tokenFile !== undefined) return tokenFileCredentials(resolve(folder, user.tokenFile), clock);
  if (user.username !== undefined || user["auth-provider"] !== undefined) {
    throw new RametError("InvalidArgument", "The kubeconfig's user logs in with a password or an auth-provider", {
      hint: "Use a token, a client certificate or an exec plugin.",
    });
  }
  const cert = await inlineOrFile(user["client-certificate-data"], user["client-certificate"], folder);
  const key = await inlineOrFile(user["client-key-data"], user["client-key"], folder);
  const values: CredentialValues = {};
  if (user.token !== undefined) values.token = user.token;
  if (cert !== undefined) values.cert = cert;
  if (key !== undefined) values.key = key;
  return staticCredentials(values);
}

async function inlineOrFile(inline: string | undefined, file: string | undefined, folder: string) {
  if (inline !== undefined && inline !== "") return Buffer.from(inline, "base64").toString("utf8");
  if (file === undefined || file === "") return undefined;
  const path = resolve(folder, file);
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new RametError("NotFound", `The kubeconfig names ${path}, which cannot be read: ${String(error)}`, {
      cause: error,
    });
  }
}
