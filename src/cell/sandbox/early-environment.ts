import { type SpawnedLink, spawnLink } from "../network/link.ts";
import { mountLayer, type RootLayer } from "./sandbox-resources.ts";

/** The parts of a sandbox's environment that are the same for every sandbox. */
export interface EarlyEnvironment {
  link: SpawnedLink;
  layer: Promise<RootLayer>;
}

export interface EarlyEnvironmentOptions {
  /** Path of `ramet-link`. */
  link: string;
  /** The cell's directory. */
  directory: string;
  /** Receives the lines that link writes for the operator. */
  log: (line: string) => void;
}

/**
 * Starts what a sandbox needs and what does not depend on it, while the cell reads its setting. A failure is reported when the
 * sandbox's environment is prepared. Nothing of it outlives the cell: link ends with its input, and mounts with their namespace.
 */
export function startEarly({ link, directory, log }: EarlyEnvironmentOptions): EarlyEnvironment {
  const layer = mountLayer(directory);
  // It is awaited later; until then a failure must not count as unhandled.
  layer.catch(() => undefined);
  return { link: spawnLink({ binary: link, log }), layer };
}
