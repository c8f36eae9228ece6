import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RametError } from "../api/errors.ts";
import type { CellSetting } from "./cell-setting.ts";
import type { SandboxCgroup } from "./cgroup/sandbox-cgroup.ts";
import { Engine } from "./engine.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { hasOneUserOnly } from "./one-user.ts";
import { ociSpec } from "./oci-spec.ts";
import type { RootFolder } from "./root-folder.ts";

export interface SandboxOptions {
  setting: CellSetting;
  log: EntrypointLog;
  netnsPath: string;
  filesystemTar: string | undefined;
  /** Its root, which goes with it. */
  root: RootFolder;
  /** The leaves that were made for it; they go with it. */
  cgroup: SandboxCgroup | undefined;
}

/** One gVisor sandbox with its files around it: from `runsc create` to `runsc delete`. */
export class Sandbox {
  readonly engine: Engine;
  /** Resolves when no process of the sandbox is left: the last holder of its output has gone. */
  readonly ended: Promise<void>;
  readonly #cgroup: SandboxCgroup | undefined;
  readonly #root: RootFolder;
  #destroyed = false;

  private constructor(parts: {
    engine: Engine;
    ended: Promise<void>;
    cgroup: SandboxCgroup | undefined;
    root: RootFolder;
  }) {
    this.engine = parts.engine;
    this.ended = parts.ended;
    this.#cgroup = parts.cgroup;
    this.#root = parts.root;
  }

  static async create({ setting, log, netnsPath, filesystemTar, root, cgroup }: SandboxOptions): Promise<Sandbox> {
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
      rootPath: root.path,
      guestPath: paths.guest,
      etcPath,
      netnsPath,
      ...(filesystemTar === undefined ? {} : { filesystemTar }),
    });
    const output = await engine.create(spec).catch(async (error: unknown) => {
      const excess = cgroup?.excess();
      await Promise.all([cgroup?.remove(), root.remove()]);
      throw excess ?? error;
    });
    const ended = Promise.all([
      log.follow(output.stdout, "stdout", output.early.stdout),
      log.follow(output.stderr, "stderr", output.early.stderr),
    ]).then(() => undefined);
    return new Sandbox({ engine, ended, cgroup, root });
  }

  /** Resolves when the sandbox is at its end without having been asked: its processes are gone, or lack memory. */
  async untilLost(): Promise<void> {
    await Promise.race([this.ended, ...(this.#cgroup === undefined ? [] : [this.#cgroup.untilOutOfMemory()])]);
  }

  /** The limit that it has broken, if it has: then that is why it ended, whatever showed it first. */
  excess(): RametError | undefined {
    return this.#cgroup?.excess();
  }

  /** Whether its end was asked for. */
  get destroyed(): boolean {
    return this.#destroyed;
  }

  async destroy(): Promise<void> {
    this.#destroyed = true;
    await this.engine.destroy();
    await Promise.all([this.#cgroup?.remove(), this.#root.remove()]);
  }
}

/** Unique on the machine, also among sandboxes that one cell makes one after another. */
function containerId(uid: string): string {
  return `${uid}-${process.pid.toString(36)}-${Date.now().toString(36)}`;
}
