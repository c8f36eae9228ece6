import { randomUUID } from "node:crypto";
import { existsSync, renameSync, statSync } from "node:fs";
import type { Clock } from "../../base/clock.ts";
import { textOfError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { launchPod, type LaunchedPod } from "./launch-pod.ts";
import { PodDirectory } from "./pod-directory.ts";
import { directoryInside, type MachineView, namespaceDirectory } from "./pod-view.ts";

export interface SparePodsOptions {
  /** The directory of all Pods' directories. */
  pods: string;
  link: string;
  cell: readonly string[];
  environment: Record<string, string>;
  view: MachineView;
  /** How many spares to keep. 0: every Pod starts a new cell. */
  count: number;
  clock: Clock;
  log: Log;
}

/** Distinguishes the directories of spares from those of Pods. */
const prefix = "spare-";
/** Leaves the CPU to the program of a Pod that has just become ready. */
const refillMilliseconds = 500;
/** The spare is replaced after this time even if the Pod is not ready. */
const refillAtLatestMilliseconds = 2_000;

/** The namespace of the first spares. */
const firstNamespace = "default";

/** Device and inode: another directory at the same path has another identity. */
type DirectoryIdentity = `${number}:${number}`;

interface SparePod extends LaunchedPod {
  name: string;
  namespace: string;
  directory: PodDirectory;
  /** The store's directory that the spare sees. */
  store: DirectoryIdentity | undefined;
}

/**
 * Cells that are started before their Pod exists. Their Linux namespaces are created and their program is loaded; they wait
 * for their setting on standard input. They end with the node, which closes that input.
 *
 * A cell's view of the store is fixed when it starts, so spares are for the Kubernetes namespace of the last Pod. A Pod of
 * another namespace starts a new cell.
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

  /** Starts missing spares after a pause. Call it when a Pod is ready. */
  refill(): void {
    if (this.#spares.length >= this.#options.count) return;
    this.#options.clock.schedule(refillMilliseconds, () => void this.fill());
  }

  /** Stops spares of other namespaces, and starts missing ones. */
  fill(): Promise<void> {
    this.#filling ??= this.#fill().finally(() => {
      this.#filling = undefined;
    });
    return this.#filling;
  }

  async #fill(): Promise<void> {
    const others = this.#spares.filter((spare) => spare.namespace !== this.#namespace || !this.#seesItsStore(spare));
    this.#spares = this.#spares.filter((spare) => !others.includes(spare));
    for (const spare of others) void end(spare);
    while (!this.#stopped && this.#spares.length < this.#options.count) {
      const { pods, link, cell, environment, view, log } = this.#options;
      const namespace = this.#namespace;
      const name = `${prefix}${randomUUID().slice(0, 8)}`;
      const directory = new PodDirectory(pods, name);
      const store = this.#storeOf(namespace);
      try {
        const launched = await launchPod({
          link,
          cell,
          environment: { ...environment, ...spareSetting, RAMET_LINK: link },
          directory,
          namespace,
          view,
          spare: true,
        });
        this.#spares.push({ ...launched, name, namespace, directory, store });
      } catch (error) {
        log.warn({ error: textOfError(error) }, "starting a spare cell failed");
        return;
      }
    }
  }

  /** Takes a spare of this namespace, if there is one, and moves its directory to `directory`. Call `give` once. */
  take(
    directory: PodDirectory,
    namespace: string,
  ): (LaunchedPod & { name: string; give(environment: Record<string, string>): void }) | undefined {
    this.#dropEnded();
    this.#namespace = namespace;
    // A spare that has not written its state yet still needs its directory at the old path.
    const spare = this.#spares.find(
      (one) => one.namespace === namespace && this.#seesItsStore(one) && existsSync(one.directory.stateFile),
    );
    this.#options.clock.schedule(refillAtLatestMilliseconds, () => void this.fill());
    if (spare === undefined) return undefined;
    this.#spares = this.#spares.filter((one) => one !== spare);
    renameSync(spare.directory.path, directory.path);
    const { child, process, name } = spare;
    const give = (environment: Record<string, string>): void => {
      child.stdin?.end(`${JSON.stringify(environment)}\n`);
    };
    return { child, process, name, give };
  }

  /** Whether the spare sees the present store. A directory that appears later or is replaced is not mounted into a spare. */
  #seesItsStore({ store, namespace }: SparePod): boolean {
    return store === this.#storeOf(namespace);
  }

  #storeOf(namespace: string): DirectoryIdentity | undefined {
    const path = namespaceDirectory(this.#options.view.store, namespace);
    const stats = path === undefined ? undefined : statSync(path, { throwIfNoEntry: false });
    return stats && `${stats.dev}:${stats.ino}`;
  }

  #dropEnded(): void {
    const ended = this.#spares.filter(({ child }) => child.exitCode !== null || child.signalCode !== null);
    this.#spares = this.#spares.filter((spare) => !ended.includes(spare));
    for (const { directory } of ended) void directory.remove();
  }

  /** Whether this is the name of a spare's directory. */
  has(name: string): boolean {
    return this.#spares.some((spare) => spare.name === name);
  }

  /** Stops the spares and removes their directories. */
  async stop(): Promise<void> {
    this.#stopped = true;
    const spares = this.#spares;
    this.#spares = [];
    await Promise.all(spares.map(end));
  }
}

/**
 * The first setting of a cell that waits. The remaining setting arrives on its standard input. It also gets `RAMET_LINK`, because it
 * starts link meanwhile.
 */
export const spareSetting = {
  RAMET_CELL_SETTING: "stdin",
  RAMET_CELL_DIRECTORY: directoryInside.cell,
  RAMET_CELL_STATE_FILE: directoryInside.stateFile,
};

async function end({ child, directory }: SparePod): Promise<void> {
  const ended = child.exitCode === null && new Promise((resolve) => child.once("exit", resolve));
  child.stdin?.end();
  await ended;
  await directory.remove();
}
