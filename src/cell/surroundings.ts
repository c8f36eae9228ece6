import { guestControlPort } from "../api/cell.ts";
import { RametError } from "../api/errors.ts";
import type { CellSetting } from "./cell-setting.ts";
import { CellCgroups } from "./cgroup/cell-cgroups.ts";
import type { SandboxCgroup } from "./cgroup/sandbox-cgroup.ts";
import { GuestControl } from "./client/guest-control.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { startLink, type Link } from "./link.ts";
import { layRoot, type RootFolder } from "./root-folder.ts";
import { Sandbox } from "./sandbox.ts";

export interface SurroundingsOptions {
  setting: CellSetting;
  log: EntrypointLog;
  /** For the operator; never a secret. */
  report: (message: string, detail?: Record<string, unknown>) => void;
  /** Called when network or sandbox have ended without having been asked to. */
  onLost: (why: RametError) => void;
  /** Called when limits of the container cannot be enforced here. */
  onUnenforced: (why: string) => void;
}

/** The sandbox and what is around it: network, root folder, control groups. */
export class Surroundings {
  readonly #options: SurroundingsOptions;
  readonly #cgroups: CellCgroups;
  #link: Link | undefined;
  #sandbox: Sandbox | undefined;

  constructor(options: SurroundingsOptions) {
    this.#options = options;
    const { config, container, paths, processes } = options.setting;
    this.#cgroups = new CellCgroups({
      uid: config.sandbox.uid,
      directory: paths.directory,
      limits: container.resources,
      ...(processes === undefined ? {} : { processes }),
    });
  }

  /** @throws RametError `SandboxNotReady` before it has been made */
  get sandbox(): Sandbox {
    if (this.#sandbox === undefined) throw new RametError("SandboxNotReady", "the sandbox has not been made yet");
    return this.#sandbox;
  }

  /** @throws RametError `SandboxNotReady` before it has been made */
  get network(): Link {
    if (this.#link === undefined) throw new RametError("SandboxNotReady", "the sandbox has no network yet");
    return this.#link;
  }

  guest(): GuestControl {
    return new GuestControl(() => this.network.dial(guestControlPort, { control: true }));
  }

  /** The limit that the sandbox has broken, if it has: then that is why it ended, whatever showed it first. */
  excess(): RametError | undefined {
    return this.#sandbox?.excess();
  }

  /** Makes the network, and in it the sandbox; nothing runs in it yet. */
  async make(): Promise<void> {
    const root = this.#layRoot();
    const { config, container, paths, listen } = this.#options.setting;
    const link = await startLink({
      binary: paths.link,
      config: {
        socket: `${paths.directory}/link.sock`,
        listen,
        ports: container.ports,
        egress: config.egress,
        dns: config.dns,
        refuse: config.clusterRanges,
      },
      log: this.#options.report,
    });
    this.#link = link;
    void link.closed.then((why) => {
      this.#options.onLost(new RametError("SandboxLost", `the sandbox's network ended: ${why}`));
    });
    await this.#makeSandbox(root, undefined);
  }

  /** Puts a sandbox in the place of the one that was made, with the files of a tar laid over its image. */
  async makeAnew(filesystemTar: string): Promise<void> {
    await this.sandbox.destroy();
    await this.#makeSandbox(this.#layRoot(), filesystemTar);
  }

  async remove(): Promise<void> {
    await this.#sandbox?.destroy();
    await this.#link?.stop();
  }

  async #makeSandbox(layingRoot: Promise<RootFolder>, filesystemTar: string | undefined): Promise<void> {
    const { setting, log, onLost } = this.#options;
    const [root, cgroup] = await Promise.all([layingRoot, this.#makeLeaves(), this.network.prepare()]);
    const { netnsPath } = this.network;
    const sandbox = await Sandbox.create({ setting, log, netnsPath, filesystemTar, root, cgroup });
    this.#sandbox = sandbox;
    void sandbox.untilLost().then(() => {
      if (this.#sandbox !== sandbox || sandbox.destroyed) return;
      onLost(new RametError("SandboxLost", "the sandbox's processes ended without being asked to"));
    });
  }

  #layRoot(): Promise<RootFolder> {
    const { config, paths } = this.#options.setting;
    const root = layRoot(config.rootPath, paths.directory);
    // Whoever awaits it hears of a failure; until then it is not one that nobody handles.
    root.catch(() => undefined);
    return root;
  }

  /** Limits that cannot be enforced keep nobody from running: it is said. */
  async #makeLeaves(): Promise<SandboxCgroup | undefined> {
    const { leaves, unenforced } = await this.#cgroups.make();
    if (unenforced !== undefined) this.#options.onUnenforced(unenforced);
    return leaves;
  }
}
