import { userFolder } from "../user-directory.ts";

/** Where Ramet keeps what can be got again: `$XDG_CACHE_HOME/ramet`, else `~/.cache/ramet` (XDG base directories). */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return userFolder(environment, "XDG_CACHE_HOME", [".cache"]);
}

/** The version of a tool that lies in the cache; none for one that was found installed. */
export function cachedToolVersion(path: string, folder: string): string | undefined {
  const [name, version, program] = path.startsWith(`${folder}/tools/`)
    ? path.slice(`${folder}/tools/`.length).split("/")
    : [];
  return name !== undefined && program === name ? version : undefined;
}
