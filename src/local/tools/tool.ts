import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as z from "zod";
import { userDirectory } from "../cluster-directory.ts";

/** How to recognize and acquire one of the programs that Ramet needs. */
export interface Tool {
  /** The program's file name. */
  name: string;
  /** The pinned version, which is also the name of its directory in the cache. */
  version: string;
  /** Whether the program at `path` is suitable, given its output of `--version`. Absent: only the cache is searched. */
  fits?: (printed: string, path: string) => boolean | Promise<boolean>;
  release?: Release;
  build: GoBuild;
}

/** A program's official release. */
export interface Release {
  url: string;
  /** `sha256:` or `sha512:` and the hex digits. A release without a pinned digest is not downloaded. */
  digest: string | undefined;
  /** The format of the file at `url`: the program, or an archive with the members to extract. */
  format: { kind: "program" } | { kind: "tar.gz" | "tar.zst"; strip: number; members: string[] };
}

export interface GoBuild {
  /** Directory of the Go module, absolute. */
  module: string;
  /** Import path of the program. */
  package: string;
  /** Values to set at link time, by symbol. */
  set: Record<string, string>;
  /** A value of `GOEXPERIMENT`. Omitted if the installed Go does not support it. */
  experiment?: string;
  /** Time of a build without caches on two cores, for the progress line. */
  coldSeconds: number;
}

/** Ramet's cache directory: `$XDG_CACHE_HOME/ramet`, else `~/.cache/ramet` (XDG base directories). */
export function cacheDirectory(environment: NodeJS.ProcessEnv = process.env): string {
  return userDirectory(environment, "XDG_CACHE_HOME", [".cache"]);
}

/** The version of a tool in the cache. Undefined for an installed tool. */
export function cachedToolVersion(path: string, directory: string): string | undefined {
  const [name, version, program] = path.startsWith(`${directory}/tools/`)
    ? path.slice(`${directory}/tools/`.length).split("/")
    : [];
  return name !== undefined && program === name ? version : undefined;
}

const Manifest = z.object({ name: z.string().optional() });

/** The package's root directory, with `native` and `tools`, for code in `src` and in `dist`. */
export function packageRoot(from: string = import.meta.dirname): string {
  const manifest = join(from, "package.json");
  if (existsSync(manifest) && Manifest.parse(JSON.parse(readFileSync(manifest, "utf8"))).name === "ramet") return from;
  const parent = dirname(from);
  if (parent === from) throw new TypeError("the directory of the package `ramet` was not found above its own code");
  return packageRoot(parent);
}
