import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { EntrypointLog } from "../sandbox/entrypoint-log.ts";
import { layPlace, makeLayer, removePlace, type SandboxPlace } from "../sandbox/sandbox-place.ts";
import { Sandbox } from "../sandbox/sandbox.ts";
import { cellSetting, type CellSetting } from "../setting/cell-setting.ts";

export interface ForecastOptions {
  /** What the last cell of this machine was given, for nothing but its sandbox. */
  environment: NodeJS.ProcessEnv;
  /** The cell's own folder. */
  directory: string;
  netnsPath: Promise<string>;
  log: Promise<EntrypointLog>;
}

/** A sandbox that is made and has nothing running in it, in its place. */
export interface Foreseen {
  place: SandboxPlace;
  waiting: Sandbox;
}

/**
 * A sandbox that a spare cell makes before it knows for whom: as the last one of this machine had it. The next is like it more
 * often than not, and then most of its start is done.
 */
export class Forecast {
  readonly #setting: CellSetting;
  readonly #foreseen: Promise<Foreseen>;

  constructor({ environment, directory, netnsPath, log }: ForecastOptions) {
    this.#setting = anonymous(cellSetting(environment), forecastDirectory(directory));
    this.#foreseen = foresee(this.#setting, netnsPath, log);
    this.#foreseen.catch(() => undefined);
  }

  /** What was made, if it is what a cell of this setting would make. What could not be made the cell will try itself. */
  async take(setting: CellSetting): Promise<Foreseen | undefined> {
    if (!isDeepStrictEqual(shapeOf(setting), shapeOf(this.#setting))) return undefined;
    return this.#foreseen.catch(() => undefined);
  }

  /** Takes it away. */
  async remove(): Promise<void> {
    const foreseen = await this.#foreseen.catch(() => undefined);
    await foreseen?.waiting.destroy();
    if (foreseen !== undefined) await removePlace(foreseen.place);
  }
}

/** Where its files are, apart from those of what the cell makes itself. */
export function forecastDirectory(directory: string): string {
  return join(directory, "forecast");
}

async function foresee(setting: CellSetting, netns: Promise<string>, logs: Promise<EntrypointLog>): Promise<Foreseen> {
  const { directory } = setting.paths;
  await mkdir(directory, { recursive: true });
  const [place, netnsPath, log] = await Promise.all([layPlace(setting, makeLayer(directory)), netns, logs]);
  const { root, cgroup } = place;
  const options = { setting, log, netnsPath, rootPath: root.path, cgroup: cgroup.leaves };
  return { place, waiting: await Sandbox.keep(options, ["start", "restore"]) };
}

/** Nobody's yet: who it is the guest is told when it starts. */
function anonymous(setting: CellSetting, directory: string): CellSetting {
  const sandbox = { ...setting.config.sandbox, name: "sandbox", uid: `spare-${randomUUID()}` };
  return { ...setting, config: { ...setting.config, sandbox }, paths: { ...setting.paths, directory } };
}

/** All that goes into a sandbox before it starts. */
function shapeOf({ config, container, paths, processes }: CellSetting): object {
  return { rootPath: config.rootPath, container, runsc: paths.runsc, guest: paths.guest, processes };
}
