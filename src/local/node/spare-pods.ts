import { randomUUID } from "node:crypto";
import { existsSync, renameSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { launchPod, type LaunchedPod } from "./launch-pod.ts";
import { PodDirectory } from "./pod-directory.ts";
import { directoryInside, type MachineView } from "./pod-view.ts";

export interface SparePodsOptions {
  /** The directory of all Pods' directories. */
  pods: string;
  link: string;
  cell: readonly string[];
  environment: Record<string, string>;
  view: MachineView;
  /** How many to keep. 0: none, every Pod is started from nothing. */
  count: number;
  clock: Clock;
  log: Log;
}

/** What directories of spares are called, so that none is taken for a Pod's. */
const prefix = "spare-";
/** A Pod that is ready has a program that starts: it needs the processor more than its successor does. */
const refillMilliseconds = 500;
/** A Pod that takes this long to be ready does not keep others from having a spare. */
const patienceMilliseconds = 2_000;

/** Whose the first spares are. */
const firstNamespace = "default";

interface SparePod extends LaunchedPod {
  name: string;
  namespace: string;
  directory: PodDirectory;
}

/**
 * Cells that run before it is known whose they will be: namespaces made, program loaded, waiting for their setting. They
 * end with the node, as nobody's input is open any more then.
 *
 * What a cell sees of the store is fixed with its namespaces, so spares are for the Kubernetes namespace of the last Pod; a
 * Pod of another one is started from nothing.
 */
export class SparePods {
  readonly #options: SparePodsOptions;
  #spares: SparePod[] = [];
  #namespace = firstNamespace;
  #filling: Promise<void> | undefined;
  #stopped = false;

  constructor(options: SparePodsOptions) {
    this.#options = options;
  }

  /** To be called when a Pod is ready: what is missing is started a little later. */
  refill(): void {
    if (this.#spares.length >= this.#options.count) return;
    this.#options.clock.schedule(refillMilliseconds, () => void this.fill());
  }

  /** Ends what is of another namespace, and starts what is missing. */
  fill(): Promise<void> {
    this.#filling ??= this.#fill().finally(() => {
      this.#filling = undefined;
    });
    return this.#filling;
  }

  async #fill(): Promise<void> {
    const others = this.#spares.filter(({ namespace }) => namespace !== this.#namespace);
    this.#spares = this.#spares.filter((spare) => !others.includes(spare));
    for (const spare of others) void end(spare);
    while (!this.#stopped && this.#spares.length < this.#options.count) {
      const { pods, link, cell, environment, view, log } = this.#options;
      const namespace = this.#namespace;
      const name = `${prefix}${randomUUID().slice(0, 8)}`;
      const directory = new PodDirectory(pods, name);
      try {
        const launched = await launchPod({
          link,
          cell,
          environment: { ...environment, ...spareSetting },
          directory,
          namespace,
          view,
          spare: true,
        });
        this.#spares.push({ ...launched, name, namespace, directory });
      } catch (error) {
        log.warn({ error: String(error) }, "a spare cell could not be started");
        return;
      }
    }
  }

  /** A spare for the Pod of this namespace whose directory this is, if one is left: it moves there. `give` is to be called once. */
  take(
    directory: PodDirectory,
    namespace: string,
  ): (LaunchedPod & { name: string; give(environment: Record<string, string>): void }) | undefined {
    this.#dropEnded();
    this.#namespace = namespace;
    // One that has not come so far as to tell its state still needs its directory under its old name.
    const spare = this.#spares.find((one) => one.namespace === namespace && existsSync(one.directory.stateFile));
    this.#options.clock.schedule(patienceMilliseconds, () => void this.fill());
    if (spare === undefined) return undefined;
    this.#spares = this.#spares.filter((one) => one !== spare);
    renameSync(spare.directory.path, directory.path);
    const { child, process, name } = spare;
    const give = (environment: Record<string, string>): void => {
      child.stdin?.end(`${JSON.stringify(environment)}\n`);
    };
    return { child, process, name, give };
  }

  #dropEnded(): void {
    const ended = this.#spares.filter(({ child }) => child.exitCode !== null || child.signalCode !== null);
    this.#spares = this.#spares.filter((spare) => !ended.includes(spare));
    for (const { directory } of ended) void directory.remove();
  }

  /** Whether a directory of this name is a spare's. */
  has(name: string): boolean {
    return this.#spares.some((spare) => spare.name === name);
  }

  /** Ends the spares and removes their directories. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const spares = this.#spares;
    this.#spares = [];
    await Promise.all(spares.map(end));
  }
}

/** What a spare knows from the start; the rest of its setting arrives on its standard input. */
const spareSetting = {
  RAMET_CELL_SETTING: "stdin",
  RAMET_CELL_STATE_FILE: directoryInside.stateFile,
};

async function end({ child, directory }: SparePod): Promise<void> {
  const ended = child.exitCode === null && new Promise((resolve) => child.once("exit", resolve));
  child.stdin?.end();
  await ended;
  await directory.remove();
}
