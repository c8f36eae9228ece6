import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { CellSetting } from "./cell-setting.ts";
import { Engine } from "./engine.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { hasOneUserOnly } from "./one-user.ts";
import { ociSpec } from "./oci-spec.ts";

export interface SandboxOptions {
  setting: CellSetting;
  log: EntrypointLog;
  netnsPath: string;
  filesystemTar: string | undefined;
}

/** One gVisor sandbox with its files around it: from `runsc create` to `runsc delete`. */
export class Sandbox {
  readonly engine: Engine;
  /** Resolves when no process of the sandbox is left: the last holder of its output has gone. */
  readonly ended: Promise<void>;
  #destroyed = false;

  private constructor(engine: Engine, ended: Promise<void>) {
    this.engine = engine;
    this.ended = ended;
  }

  static async create({ setting, log, netnsPath, filesystemTar }: SandboxOptions): Promise<Sandbox> {
    const { config, paths } = setting;
    const etcPath = join(paths.directory, "etc");
    await mkdir(etcPath, { recursive: true });
    await writeFile(join(etcPath, "resolv.conf"), "nameserver 169.254.17.1\n");
    const engine = new Engine({
      runsc: paths.runsc,
      directory: paths.directory,
      id: containerId(config.sandbox.uid),
      volumesInMemory: hasOneUserOnly(),
    });
    const output = await engine.create(
      ociSpec({
        container: config.container,
        hostname: config.sandbox.name,
        rootPath: config.rootPath,
        guestPath: paths.guest,
        etcPath,
        netnsPath,
        ...(filesystemTar === undefined ? {} : { filesystemTar }),
      }),
    );
    const ended = Promise.all([
      log.follow(output.stdout, "stdout", output.early.stdout),
      log.follow(output.stderr, "stderr", output.early.stderr),
    ]).then(() => undefined);
    return new Sandbox(engine, ended);
  }

  /** Whether its end was asked for. */
  get destroyed(): boolean {
    return this.#destroyed;
  }

  async destroy(): Promise<void> {
    this.#destroyed = true;
    await this.engine.destroy();
  }
}

/** Unique on the machine, also among sandboxes that one cell makes one after another. */
function containerId(uid: string): string {
  return `${uid}-${process.pid.toString(36)}-${Date.now().toString(36)}`;
}
