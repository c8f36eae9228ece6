import { access } from "node:fs/promises";
import { readText } from "../base/read-text.ts";
import { delimiter, dirname, join, resolve } from "node:path";
import { parse } from "yaml";
import * as z from "zod";
import { RametError, textOfError, isFulfilled } from "../base/errors.ts";

/** One or several kubeconfig files, or the text of one. Several files are merged as kubectl merges them. */
export type KubeconfigSource = { path: string | readonly string[] } | { text: string };

type Environment = Readonly<Record<string, string | undefined>>;

/** The kubeconfig files that the environment names: those of `KUBECONFIG`, else `~/.kube/config`. They may not exist. */
export function kubeconfigPaths(environment: Environment, home = environment["HOME"]): string[] {
  const listed = listedKubeconfigs(environment);
  if (listed.length > 0) return listed;
  return home === undefined ? [] : [join(home, ".kube", "config")];
}

/** The files of `KUBECONFIG`, in order of precedence. */
export function listedKubeconfigs(environment: Environment): string[] {
  return (environment["KUBECONFIG"] ?? "").split(delimiter).filter((path) => path !== "");
}

/** The paths at which there is a file: kubectl skips missing files, too. */
export async function existingPaths(paths: readonly string[]): Promise<string[]> {
  const exist = await Promise.all(paths.map(exists));
  return paths.filter((_, index) => exist[index]);
}

function exists(path: string): Promise<boolean> {
  return isFulfilled(access(path));
}

const User = z.looseObject({
  token: z.string().optional(),
  tokenFile: z.string().optional(),
  "client-certificate": z.string().optional(),
  "client-certificate-data": z.string().optional(),
  "client-key": z.string().optional(),
  "client-key-data": z.string().optional(),
  as: z.string().optional(),
  "as-uid": z.string().optional(),
  "as-groups": z.array(z.string()).nullish(),
  "as-user-extra": z.record(z.string(), z.array(z.string())).nullish(),
  exec: z
    .looseObject({
      apiVersion: z.string(),
      command: z.string().min(1),
      args: z.array(z.string()).nullish(),
      env: z.array(z.object({ name: z.string(), value: z.string() })).nullish(),
      installHint: z.string().optional(),
      interactiveMode: z.string().optional(),
      provideClusterInfo: z.boolean().optional(),
    })
    .nullish(),
  username: z.string().optional(),
  password: z.string().optional(),
  "auth-provider": z.unknown().optional(),
});
export type KubeconfigUser = z.infer<typeof User>;

// `disable-compression` needs no code: Ramet never asks for compressed responses.
const Cluster = z.looseObject({
  server: z.url(),
  "certificate-authority": z.string().optional(),
  "certificate-authority-data": z.string().optional(),
  "insecure-skip-tls-verify": z.boolean().optional(),
  "tls-server-name": z.string().optional(),
  "proxy-url": z.string().optional(),
  extensions: z.array(z.looseObject({ name: z.string(), extension: z.unknown() })).nullish(),
});
export type KubeconfigCluster = z.infer<typeof Cluster>;

const Kubeconfig = z.looseObject({
  "current-context": z.string().default(""),
  contexts: entries(
    z.object({
      name: z.string(),
      context: z.looseObject({ cluster: z.string(), user: z.string().optional(), namespace: z.string().optional() }),
    }),
  ),
  clusters: entries(z.object({ name: z.string(), cluster: Cluster })),
  users: entries(z.object({ name: z.string(), user: User.nullish().transform((user) => user ?? {}) })),
});
type Kubeconfig = z.infer<typeof Kubeconfig>;

/** A list that may be missing: not every file that is merged has all of them. */
function entries<T extends z.ZodType>(entry: T) {
  return z
    .array(entry)
    .nullish()
    .transform((list) => list ?? []);
}

/** The entries of all files in their order, each with the directory that its relative paths refer to. */
export interface MergedKubeconfig extends Pick<Kubeconfig, "current-context" | "contexts"> {
  clusters: (Kubeconfig["clusters"][number] & { directory: string })[];
  users: (Kubeconfig["users"][number] & { directory: string })[];
  /** How messages name the files. */
  origin: string;
}

/** @throws RametError `NotFound` for a file that cannot be read, `InvalidArgument` for one that is not a kubeconfig */
export async function readKubeconfig(source: KubeconfigSource): Promise<MergedKubeconfig> {
  if ("text" in source) return merge("given as text", [{ ...validated(source.text, "given as text"), directory: "." }]);
  const paths = [source.path].flat();
  const read = async (path: string) => ({
    ...validated(await readText(path, `the kubeconfig ${path}`), path),
    directory: dirname(resolve(path)),
  });
  return merge(paths.join(" and "), await Promise.all(paths.map(read)));
}

/** Merges the files. `entryNamed` returns the first of entries with the same name: the first file that defines a name wins. */
function merge(origin: string, configs: readonly (Kubeconfig & { directory: string })[]): MergedKubeconfig {
  return {
    origin,
    "current-context": configs.map((config) => config["current-context"]).find((name) => name !== "") ?? "",
    contexts: configs.flatMap(({ contexts }) => contexts),
    clusters: configs.flatMap(({ clusters, directory }) => clusters.map((entry) => ({ ...entry, directory }))),
    users: configs.flatMap(({ users, directory }) => users.map((entry) => ({ ...entry, directory }))),
  };
}

/** @throws RametError `NotFound`, with the names that exist */
export function entryNamed<T extends { name: string }>(
  list: readonly T[],
  name: string,
  { noun, origin }: { noun: string; origin: string },
): T {
  const found = list.find((entry) => entry.name === name);
  if (found !== undefined) return found;
  const known = list.map((entry) => entry.name).join(", ");
  throw new RametError("NotFound", `The kubeconfig ${origin} has no ${noun} named "${name}"`, {
    hint: known === "" ? `Add a ${noun} to it` : `Choose one of: ${known}`,
  });
}

function validated(text: string, origin: string): Kubeconfig {
  try {
    return Kubeconfig.parse(parse(text) ?? {});
  } catch (error) {
    const why = error instanceof z.ZodError ? z.prettifyError(error) : textOfError(error);
    throw new RametError("InvalidArgument", `The kubeconfig ${origin} is invalid: ${why}`, { cause: error });
  }
}
