import { userFolder } from "../user-folder.ts";

/** Where Ramet keeps what can be got again: `$XDG_CACHE_HOME/ramet`, else `~/.cache/ramet` (XDG base directories). */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return userFolder(environment, "XDG_CACHE_HOME", [".cache"]);
}
