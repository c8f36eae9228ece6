import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { guestControlPort } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { makeLeaves } from "../cgroup/cell-cgroups.ts";
import { GuestControl } from "../client/guest-control.ts";
import type { GuestDial } from "../client/guest-http.ts";
import { linkSocket } from "../network/link-lines.ts";
import { type Link, type SpawnedLink, startLink } from "../network/link.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { RootDirectories } from "./root-directories.ts";
import { isMemory, Sandbox, type SandboxOptions, type SandboxOrigin, type UnpackedLayer } from "./sandbox.ts";

/** What a sandbox starts from. */
export interface SandboxSource {
  origin: SandboxOrigin;
  layers: readonly UnpackedLayer[];
}

export interface SandboxEnvironmentOptions {
  setting: CellSetting;
  spawnedLink: SpawnedLink;
  log: EntrypointLog;
  clock: Clock;
  /** Called when the network or the current sandbox has ended unexpectedly. */
  onLost: (why: RametError) => void;
  /** Called when limits of the container cannot be enforced here. */
  onUnenforced: (why: string) => void;
  /** Logs for the operator. */
  report: (message: string) => void;
}

/** What has been prepared on the host. */
interface Prepared {
  resources: SandboxResources;
  /** The options with which every sandbox of the cell is created. */
  sandbox: SandboxOptions;
}

/**
 * The sandboxes of one cell and what they need on the host. There is the current sandbox, one that waits to replace it, and those that
 * were replaced.
 */
export class SandboxEnvironment {
  readonly #options: SandboxEnvironmentOptions;
  #link: Link | undefined;
  #prepared: Prepared | undefined;
  #current: Sandbox | undefined;
  /** Created; nothing runs in it. */
  #waiting: Promise<Sandbox> | undefined;
  /** Prepared to replace the current one. */
  #successor: Sandbox | undefined;
  /** No longer needed, and not removed yet. */
  #replaced: Sandbox[] = [];
  /** The last operation. `remove` waits for it. */
  #busy: Promise<unknown> = Promise.resolve();

  constructor(options: SandboxEnvironmentOptions) {
    this.#options = options;
  }

  /** @throws RametError `SandboxNotReady` before it has been started */
  get sandbox(): Sandbox {
    if (this.#current === undefined) throw new RametError("SandboxNotReady", "the sandbox has not been started yet");
    return this.#current;
  }

  /** @throws RametError `SandboxNotReady` before `prepare` */
  get network(): Link {
    if (this.#link === undefined) throw new RametError("SandboxNotReady", "the sandbox has no network yet");
    return this.#link;
  }

  guest(): GuestControl {
    const dial: GuestDial = (signal) => this.network.dial(guestControlPort, { control: true, ...defined({ signal }) });
    return new GuestControl(dial, this.#options.clock);
  }

  /** The limit that the sandbox has exceeded, if any. It is then the reason why the sandbox ended. */
  exceededLimit(): RametError | undefined {
    return this.#current?.exceededLimit();
  }

  /** Prepares network, root directory and control groups. No sandbox runs yet. */
  async prepare(): Promise<void> {
    const { setting, spawnedLink, log, onLost, onUnenforced } = this.#options;
    const { config, container, paths, listen } = setting;
    const allocating = allocateResources(setting);
    // It is awaited below; until then a failure must not count as unhandled.
    allocating.catch(() => undefined);
    const link = await startLink(spawnedLink, {
      config: {
        socket: linkSocket(paths.directory),
        listen,
        ports: container.ports,
        egress: config.egress,
        dns: config.dns,
        refuse: config.clusterRanges,
      },
    });
    this.#link = link;
    void link.closed.then((why) => {
      onLost(new RametError("SandboxLost", `the sandbox's network ended: ${why}`));
    });
    const [resources] = await Promise.all([allocating, link.prepare()]);
    const { roots, cgroup } = resources;
    const groups = { cgroup: cgroup.leaves, container: cgroup.container };
    this.#prepared = {
      resources,
      sandbox: { setting, log, netnsPath: link.netnsPath, roots, layers: [], ...groups },
    };
    // A sandbox runs also where its limits cannot be enforced.
    if (cgroup.unenforced !== undefined) onUnenforced(cgroup.unenforced);
  }

  /** Starts the first sandbox. A memory goes into the waiting sandbox if there is one. */
  start(source: SandboxSource): Promise<void> {
    return this.#track(this.#start(source));
  }

  /** Creates the sandbox that waits to replace the running one. Creating it takes longer than the rest of a replacement. */
  async keepWaiting(layers: readonly UnpackedLayer[]): Promise<void> {
    if (this.#waiting !== undefined) return;
    const waiting = this.#track(Sandbox.createWaiting({ ...this.#forSandbox, layers }));
    this.#waiting = waiting;
    // A replacement then creates it and reports the error.
    waiting.catch(() => {
      if (this.#waiting === waiting) this.#waiting = undefined;
    });
    await waiting;
  }

  /**
   * Prepares the sandbox that replaces the current one, and returns the function that replaces it. The current sandbox keeps
   * running until that function is called; after that it cannot be brought back.
   */
  async prepareReplacement(source: SandboxSource): Promise<() => Promise<void>> {
    const old = this.sandbox;
    // Those that could not be removed are removed later.
    const removing = this.removeReplaced().catch((error: unknown) => {
      this.#options.report(`removing a replaced sandbox failed: ${RametError.from(error).message}`);
    });
    const [created] = await this.#track(Promise.allSettled([this.#next(source), removing]));
    if (created.status === "rejected") throw RametError.from(created.reason);
    const next = created.value;
    this.#successor = next;
    return () => this.#track(this.#replace(old, next, source.origin));
  }

  /** Applies the sandbox's CPU limit. Until then it shares the CPU of its Pod with the cell. */
  async limitCpu(): Promise<void> {
    await this.#prepared?.resources.cgroup.leaves?.limitCpu();
  }

  /** Lifts the sandbox's CPU limit while another sandbox replaces it. */
  async liftCpuLimit(): Promise<void> {
    await this.#prepared?.resources.cgroup.leaves?.liftCpuLimit();
  }

  /**
   * Removes the replaced sandboxes. This takes CPU: call it when the new sandbox responds. The next call tries it again for those
   * that it could not remove.
   */
  async removeReplaced(): Promise<void> {
    const removing = this.#replaced.splice(0).map(async (old) => {
      await old.destroy().catch((error: unknown) => {
        this.#replaced.push(old);
        throw error;
      });
    });
    throwFirst(await Promise.allSettled(removing));
  }

  async remove(): Promise<void> {
    await this.#busy;
    const waiting = await this.#waiting?.catch(() => undefined);
    const others = [this.#current, this.#successor, waiting].map((one) => one?.destroy());
    const destroyed = await Promise.allSettled([...others, this.removeReplaced()]);
    if (this.#prepared !== undefined) await releaseResources(this.#prepared.resources);
    await this.#link?.stop();
    throwFirst(destroyed);
  }

  async #start({ origin, layers }: SandboxSource): Promise<void> {
    const waiting = isMemory(origin) ? await this.#takeWaiting({ origin, layers }) : undefined;
    if (waiting === undefined || !isMemory(origin)) {
      this.#setCurrent(await Sandbox.start({ ...this.#forSandbox, layers }, origin));
      return;
    }
    this.#setCurrent(waiting);
    await waiting.run(origin);
  }

  async #next({ origin, layers }: SandboxSource): Promise<Sandbox> {
    const waiting = await this.#takeWaiting({ origin, layers });
    return waiting ?? Sandbox.create({ ...this.#forSandbox, layers }, isMemory(origin) ? "image" : origin);
  }

  async #replace(old: Sandbox, next: Sandbox, origin: SandboxOrigin): Promise<void> {
    this.#replaced.push(old);
    await Promise.all([old.halt(), this.network.prepare()]);
    this.#setCurrent(next);
    this.#successor = undefined;
    await next.run(isMemory(origin) ? origin : undefined);
  }

  /**
   * Returns the waiting sandbox, with the layers of the origin, if it still exists and fits. It does not fit an origin with changed
   * files, which are applied when a sandbox is created.
   */
  async #takeWaiting({ origin, layers }: SandboxSource): Promise<Sandbox | undefined> {
    if (origin !== "image" && !isMemory(origin)) return undefined;
    const taken = this.#waiting;
    this.#waiting = undefined;
    const waiting = await taken?.catch(() => undefined);
    if (waiting === undefined) return undefined;
    const fits = !waiting.hasEnded && (await this.#hasLayers(waiting, layers));
    if (fits && (await waiting.engine.isRunning())) return waiting;
    this.#replaced.push(waiting);
    await waiting.halt();
    return undefined;
  }

  /** Changes the layers of the waiting sandbox if they are others. */
  async #hasLayers(waiting: Sandbox, layers: readonly UnpackedLayer[]): Promise<boolean> {
    if (isDeepStrictEqual(waiting.layers, layers)) return true;
    try {
      await waiting.setLayers(layers);
      return true;
    } catch (error) {
      this.#options.report(`${RametError.from(error).message}; another sandbox is created`);
      return false;
    }
  }

  #setCurrent(sandbox: Sandbox): void {
    this.#current = sandbox;
    void sandbox.untilLost().then(() => {
      if (!sandbox.destroyed)
        this.#options.onLost(new RametError("SandboxLost", "the sandbox's processes ended unexpectedly"));
    });
  }

  #track<T>(work: Promise<T>): Promise<T> {
    this.#busy = work.catch(() => undefined);
    return work;
  }

  get #forSandbox(): SandboxOptions {
    if (this.#prepared === undefined) throw new RametError("SandboxNotReady", "the sandbox is not prepared yet");
    return this.#prepared.sandbox;
  }
}

function throwFirst(results: readonly PromiseSettledResult<unknown>[]): void {
  const failure = results.find((result) => result.status === "rejected");
  if (failure !== undefined) throw RametError.from(failure.reason);
}

/** The root directories and the control groups in which the sandboxes of one cell run. */
export type SandboxResources = Awaited<ReturnType<typeof allocateResources>>;

/** @throws RametError `HostUnsupported` */
export async function allocateResources(setting: CellSetting) {
  const { config, container, paths, processes } = setting;
  const [limits, declared] = [container.resources, config.container.resources];
  const own = { uid: config.sandbox.uid, directory: paths.directory, limits, declared, ...defined({ processes }) };
  const roots = new RootDirectories({
    directory: join(paths.directory, "root"),
    imagePath: config.rootPath,
    link: paths.link,
    inMemory: config.layerInMemory === true,
  });
  const [cgroup] = await Promise.all([makeLeaves(own), roots.prepare()]);
  return { roots, cgroup };
}

export async function releaseResources({ roots, cgroup }: SandboxResources): Promise<void> {
  await Promise.all([cgroup.leaves?.remove(), roots.remove()]);
}
