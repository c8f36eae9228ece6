import type { EntrypointLog } from "../sandbox/entrypoint-log.ts";
import { Forecast } from "./forecast.ts";
import { launchLink, type LaunchLinkOptions, type WaitingLink } from "../network/link.ts";
import { makeLayer } from "../sandbox/sandbox-place.ts";

/** What of a sandbox's surroundings depends on nobody's setting: a spare cell makes it while it waits. */
export interface Groundwork {
  link: WaitingLink;
  /** The empty layer of the root. */
  layer: Promise<string>;
  /** What the cell expects to need. */
  forecast?: Forecast;
}

export interface GroundworkOptions {
  /** Path of `ramet-link`. */
  link: string;
  /** The cell's own folder. */
  directory: string;
  /** What the last cell of this machine was given, and where a sandbox made after it would log. */
  expected?: { environment: NodeJS.ProcessEnv; log: Promise<EntrypointLog> } | undefined;
  /** For the operator; never a secret. */
  report: NonNullable<LaunchLinkOptions["log"]>;
}

/** Begins with it. What fails is told to whoever uses it. */
export function layGroundwork({ link: binary, directory, expected, report }: GroundworkOptions): Groundwork {
  const layer = makeLayer(directory);
  layer.catch(() => undefined);
  const link = launchLink({ binary, log: report });
  const { netnsPath } = link;
  return { link, layer, ...(expected && { forecast: new Forecast({ ...expected, directory, netnsPath }) }) };
}
