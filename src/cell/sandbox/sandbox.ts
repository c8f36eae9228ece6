import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { delay, systemClock } from "../../base/clock.ts";
import { layerBytesOf } from "../../api/wire/cell-api.ts";
import type { LayerRef } from "../../api/wire/grant.ts";
import type { RametError } from "../../base/errors.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import type { ContainerMemory } from "../cgroup/container-memory.ts";
import type { SandboxCgroup } from "../cgroup/sandbox-cgroup.ts";
import { Engine, type EngineOutput } from "./engine.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { hasOneUserOnly, type RootDirectories, type RootDirectory } from "./root-directories.ts";
import { goferName, SavedImages, type SavedFiles, type SavedMemory } from "./saved-image.ts";
import { ociSpec } from "./oci-spec.ts";

/** The root filesystem of a new sandbox: its image, or its image with the changed files of a checkpoint. */
export type SandboxFiles = "image" | SavedFiles;
export type SandboxOrigin = SandboxFiles | SavedMemory;

/** A layer that is unpacked on this node. */
export interface UnpackedLayer extends LayerRef {
  path: string;
  /** A layer that was removed and unpacked again has another one. */
  inode: number;
}

export interface SandboxOptions {
  setting: CellSetting;
  /** The layers between the image and what the sandbox writes, in their order. */
  layers: readonly UnpackedLayer[];
  log: EntrypointLog;
  netnsPath: string;
  roots: RootDirectories;
  /** The leaf control groups in which it runs. Undefined where its resources are not limited. */
  cgroup: SandboxCgroup | undefined;
  /** The memory that the sandbox shares with its cell, if that has a limit. */
  container: ContainerMemory | undefined;
}

/** One gVisor sandbox, from its creation to `runsc delete`. A cell may replace it by another one. */
export class Sandbox {
  readonly engine: Engine;
  readonly images: SavedImages;
  /** Resolves when no process of the sandbox is left: its output is closed. */
  readonly ended: Promise<void>;
  /** The memory that the sandbox shares with its cell, if that has a limit. */
  readonly container: ContainerMemory | undefined;
  readonly #roots: RootDirectories;
  #layers: readonly UnpackedLayer[];
  #root: RootDirectory;
  readonly #cgroup: SandboxCgroup | undefined;
  readonly #isLimited: boolean;
  #hasEnded = false;
  #destroyed = false;
  #isHalted = false;

  private constructor(parts: {
    engine: Engine;
    images: SavedImages;
    root: RootDirectory;
    ended: Promise<void>;
    options: SandboxOptions;
  }) {
    this.engine = parts.engine;
    this.#root = parts.root;
    this.ended = parts.ended;
    const { cgroup, container, setting, layers, roots } = parts.options;
    this.#layers = layers;
    this.#roots = roots;
    this.images = parts.images;
    this.#cgroup = cgroup;
    this.container = container;
    this.#isLimited = setting.config.container.resources.memoryBytes !== undefined;
    void parts.ended.then(() => {
      this.#hasEnded = true;
    });
  }

  /** Creates a sandbox and starts or restores it. Its guest has no identity yet. */
  static async start(options: SandboxOptions, origin: SandboxOrigin): Promise<Sandbox> {
    if (isMemory(origin)) return Sandbox.#make(options, (engine, spec) => engine.runRestored(spec, origin));
    const files = savedFiles(origin);
    return Sandbox.#make(options, (engine, spec) => engine.run(spec, files), files);
  }

  /** Creates a sandbox in which nothing runs until `run`. */
  static async create(options: SandboxOptions, files: SandboxFiles): Promise<Sandbox> {
    const saved = savedFiles(files);
    return Sandbox.#make(options, (engine, spec) => engine.create(spec, saved), saved);
  }

  /** Creates a sandbox that waits for a checkpoint, and starts the restore command early. */
  static async createWaiting(options: SandboxOptions): Promise<Sandbox> {
    return Sandbox.#make(options, (engine, spec) => engine.createWaiting(spec));
  }

  static async #make(
    options: SandboxOptions,
    command: (engine: Engine, spec: Record<string, unknown>) => Promise<EngineOutput>,
    files?: SavedFiles,
  ): Promise<Sandbox> {
    const { setting, log, netnsPath, roots, cgroup, layers } = options;
    const { config, container, paths } = setting;
    const etcPath = join(paths.directory, "etc");
    await mkdir(etcPath, { recursive: true });
    await writeFile(join(etcPath, "resolv.conf"), "nameserver 169.254.17.1\n");
    const root = await roots.take(layers.map(({ path }) => path));
    const { sidePrograms } = paths;
    const gofer = sidePrograms && join(sidePrograms, goferName);
    const id = containerId(config.sandbox.uid);
    const images = new SavedImages({ gofer, directory: join(paths.directory, "gofer", id), root });
    const engine = new Engine({
      runsc: paths.runsc,
      directory: paths.directory,
      id,
      layerBytes: layerBytesOf(container),
      layersOfVolumes: layersOfVolumes(setting, root),
      images,
      environment: sidePrograms === undefined ? {} : { GVISOR_SIDECAR_BINARIES_DIR: sidePrograms },
      cgroup,
      sharesMemory: options.container !== undefined,
    });
    const spec = ociSpec({
      container,
      hostname: config.sandbox.name,
      rootPath: root.path,
      guestPath: paths.guest,
      etcPath,
      netnsPath,
      filesystemTar: files !== undefined && "tar" in files ? files.tar : undefined,
    });
    const output = await command(engine, spec).catch(async (error: unknown) => {
      await root.remove();
      throw cgroup?.exceededLimit() ?? options.container?.exceeded() ?? error;
    });
    await root.protect();
    const ended = Promise.all([
      log.follow(output.stdout, "stdout", output.early.stdout),
      log.follow(output.stderr, "stderr", output.early.stderr),
    ]).then(() => undefined);
    return new Sandbox({ engine, images, root, ended, options });
  }

  /** Starts a created sandbox, or restores a checkpoint's memory into it. Its guest has no identity yet. */
  async run(memory?: SavedMemory): Promise<void> {
    try {
      await (memory === undefined ? this.engine.start() : this.engine.restore(memory));
    } catch (error) {
      throw this.exceededLimit() ?? error;
    }
    await this.engine.dropEarly();
  }

  /**
   * Resolves when the sandbox has ended or has run out of memory. The kernel can kill one of its processes without a notification, and
   * the others would keep running.
   */
  async untilLost(): Promise<void> {
    const limited = this.#cgroup ?? this.container;
    if (limited?.hasKilledOne === undefined) return this.ended;
    while (!this.#hasEnded && !limited.hasKilledOne)
      await Promise.race([this.ended, delay(systemClock, pollMilliseconds)]);
  }

  /** The limit that the sandbox has exceeded, if any. It is then the reason why the sandbox ended. */
  exceededLimit(): RametError | undefined {
    return this.#cgroup?.exceededLimit() ?? this.container?.exceeded();
  }

  /** The bytes on disk of the files that the sandbox has written. */
  writtenBytes(): Promise<number> {
    return this.#root.writtenBytes();
  }

  /** Writes its files to the disk, so that a clone of their blocks does not wait for that. */
  flush(): Promise<void> {
    return this.#root.flush();
  }

  /** @see SandboxOptions.layers */
  get layers(): readonly UnpackedLayer[] {
    return this.#layers;
  }

  /** Changes the layers of a sandbox in which nothing runs yet. @see RootDirectories.replace */
  async setLayers(layers: readonly UnpackedLayer[]): Promise<void> {
    const paths = layers.map(({ path }) => path);
    this.#root = await this.#roots.replace(this.#root, paths);
    this.#layers = layers;
  }

  /** The root directory on the host, without what the sandbox has written. */
  get rootPath(): string {
    return this.#root.path;
  }

  /** Whether no process of the sandbox is left. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether `halt` or `destroy` was called. */
  get destroyed(): boolean {
    return this.#destroyed;
  }

  /**
   * Stops the sandbox immediately, so that another one can replace it. With a memory limit its memory is freed first, because the
   * other sandbox may need all of the limit. Otherwise `destroy` frees it later, because that takes CPU.
   */
  async halt(): Promise<void> {
    this.#destroyed = true;
    // A default limit is far above what most sandboxes use.
    const mustFree = this.#isLimited || this.#cgroup?.usesMuchMemory === true;
    this.#isHalted = !mustFree;
    this.engine.halt(mustFree ? "SIGKILL" : "SIGSTOP");
    if (mustFree) await this.ended;
  }

  async destroy(): Promise<void> {
    this.#destroyed = true;
    // `runsc delete` would wait for the stopped process.
    if (this.#isHalted) this.engine.halt("SIGKILL");
    this.#isHalted = false;
    await this.engine.destroy();
    await this.#root.remove();
  }
}

/** How often the count of out-of-memory kills is read where the kernel sends no notification. */
const pollMilliseconds = 250;

/** Where all files must belong to one user, the layers of volumes and of the root are in one directory. */
function layersOfVolumes({ config, paths, sharesVolumes }: CellSetting, root: RootDirectory): string | undefined {
  if (!hasOneUserOnly() || sharesVolumes) return undefined;
  return config.layerInMemory === true ? root.layer : paths.directory;
}

function savedFiles(files: SandboxFiles): SavedFiles | undefined {
  return files === "image" ? undefined : files;
}

export function isMemory(origin: SandboxOrigin): origin is SavedMemory {
  return origin !== "image" && "background" in origin;
}

/** Returns an id that is unique on the machine, also among the sandboxes of one cell. */
function containerId(uid: string): string {
  return `${uid}-${randomBytes(4).toString("hex")}`;
}
