import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RametError } from "../../base/errors.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import type { SandboxCgroup } from "../cgroup/sandbox-cgroup.ts";
import { Engine, type EngineOutput, type SavedMemory } from "./engine.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { hasOneUserOnly } from "./sandbox-place.ts";
import { ociSpec } from "./oci-spec.ts";

/** Nothing but its image, or the changed files of a checkpoint laid over that, as a tar. */
export type SandboxFiles = "image" | { filesystemTar: string };
export type SandboxOrigin = SandboxFiles | SavedMemory;

export interface SandboxOptions {
  setting: CellSetting;
  log: EntrypointLog;
  netnsPath: string;
  rootPath: string;
  /** The leaves in which it runs, where its resources are limited. */
  cgroup: SandboxCgroup | undefined;
}

/** One gVisor sandbox, from its making to `runsc delete`. What is around it is the cell's, which may have another one in its place later. */
export class Sandbox {
  readonly engine: Engine;
  /** Resolves when no process of the sandbox is left: the last holder of its output has gone. */
  readonly ended: Promise<void>;
  readonly #cgroup: SandboxCgroup | undefined;
  readonly #isLimited: boolean;
  #isGone = false;
  #destroyed = false;
  #standsStill = false;

  private constructor(parts: { engine: Engine; ended: Promise<void>; options: SandboxOptions }) {
    this.engine = parts.engine;
    this.ended = parts.ended;
    const { cgroup, setting } = parts.options;
    this.#cgroup = cgroup;
    this.#isLimited = setting.container.resources.memoryBytes !== undefined;
    void parts.ended.then(() => {
      this.#isGone = true;
    });
  }

  /** Starts or restores one; nobody has spoken with its guest yet. */
  static async start(options: SandboxOptions, origin: SandboxOrigin): Promise<Sandbox> {
    if (!isMemory(origin)) return Sandbox.#make(options, origin, (engine, spec) => engine.run(spec));
    return Sandbox.#make(options, "image", (engine, spec) => engine.runFrom(spec, origin));
  }

  /** Makes one in which nothing runs until `begin`. */
  static async create(options: SandboxOptions, files: SandboxFiles): Promise<Sandbox> {
    return Sandbox.#make(options, files, (engine, spec) => engine.create(spec));
  }

  /** Makes one that waits for a checkpoint, with the restore half started. */
  static async keep(options: SandboxOptions): Promise<Sandbox> {
    const sandbox = await Sandbox.create(options, "image");
    sandbox.engine.hold("restore");
    return sandbox;
  }

  static async #make(
    options: SandboxOptions,
    files: SandboxFiles,
    command: (engine: Engine, spec: Record<string, unknown>) => Promise<EngineOutput>,
  ): Promise<Sandbox> {
    const { setting, log, netnsPath, rootPath, cgroup } = options;
    const { config, container, paths } = setting;
    const etcPath = join(paths.directory, "etc");
    await mkdir(etcPath, { recursive: true });
    await writeFile(join(etcPath, "resolv.conf"), "nameserver 169.254.17.1\n");
    const engine = new Engine({
      runsc: paths.runsc,
      directory: paths.directory,
      id: containerId(config.sandbox.uid),
      volumesInMemory: hasOneUserOnly(),
      cgroup,
    });
    const spec = ociSpec({
      container,
      hostname: config.sandbox.name,
      rootPath,
      guestPath: paths.guest,
      etcPath,
      netnsPath,
      ...(files !== "image" && files),
    });
    const output = await command(engine, spec).catch((error: unknown) => {
      throw cgroup?.excess() ?? error;
    });
    const ended = Promise.all([
      log.follow(output.stdout, "stdout", output.early.stdout),
      log.follow(output.stderr, "stderr", output.early.stderr),
    ]).then(() => undefined);
    return new Sandbox({ engine, ended, options });
  }

  /** Starts what `create` has made, or gives it a checkpoint's memory; nobody has spoken with its guest yet. */
  async begin(memory?: SavedMemory): Promise<void> {
    try {
      await (memory === undefined ? this.engine.start() : this.engine.restore(memory));
    } catch (error) {
      throw this.excess() ?? error;
    }
    await this.engine.dropHeld();
  }

  /** Resolves when the sandbox is at its end without having been asked: its processes are gone, or lack memory. */
  async untilLost(): Promise<void> {
    await Promise.race([this.ended, ...(this.#cgroup === undefined ? [] : [this.#cgroup.untilOutOfMemory()])]);
  }

  /** The limit that it has broken, if it has: then that is why it ended, whatever showed it first. */
  excess(): RametError | undefined {
    return this.#cgroup?.excess();
  }

  /** Whether no process of it is left. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Whether its end was asked for. */
  get destroyed(): boolean {
    return this.#destroyed;
  }

  /**
   * Has it give up its place at once: it answers nobody any more. Its memory is free when this returns if there is a limit, of
   * which another sandbox may need all; else that is left to `destroy`, as it takes the processor for a while.
   */
  async giveWay(): Promise<void> {
    this.#destroyed = true;
    this.#standsStill = !this.#isLimited;
    await this.engine.halt(this.#isLimited ? "SIGKILL" : "SIGSTOP");
    if (this.#isLimited) await this.ended;
  }

  async destroy(): Promise<void> {
    this.#destroyed = true;
    // `runsc` would wait for its answer.
    if (this.#standsStill) await this.engine.halt("SIGKILL");
    this.#standsStill = false;
    await this.engine.destroy();
  }
}

export function isMemory(origin: SandboxOrigin): origin is SavedMemory {
  return origin !== "image" && "imagePath" in origin;
}

/** Unique on the machine, also among sandboxes that one cell makes one after another. */
function containerId(uid: string): string {
  return `${uid}-${randomBytes(4).toString("hex")}`;
}
