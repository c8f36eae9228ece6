import { homedir } from "node:os";
import { join } from "node:path";

/** Where Ramet keeps what can be got again: `$XDG_CACHE_HOME/ramet`, else `~/.cache/ramet` (XDG base directories). */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const xdg = environment["XDG_CACHE_HOME"];
  // A relative value is to be ignored, says the XDG specification.
  return join(xdg?.startsWith("/") === true ? xdg : join(homedir(), ".cache"), "ramet");
}
