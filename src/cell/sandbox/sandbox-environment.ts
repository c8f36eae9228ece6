import { guestControlPort } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { GuestControl } from "../client/guest-control.ts";
import { linkSocket } from "../network/link-dial.ts";
import { type Link, startLink } from "../network/link.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import {
  type EarlyEnvironment,
  allocateResources,
  releaseResources,
  type SandboxResources,
} from "./sandbox-resources.ts";
import { SandboxSlots } from "./sandbox-slots.ts";
import type { Sandbox, SandboxOrigin } from "./sandbox.ts";

export interface SandboxEnvironmentOptions {
  setting: CellSetting;
  early: EarlyEnvironment;
  log: EntrypointLog;
  clock: Clock;
  /** Called when the network or the sandbox has ended unexpectedly. */
  onLost: (why: RametError) => void;
  /** Called when limits of the container cannot be enforced here. */
  onUnenforced: (why: string) => void;
}

/** The sandbox and what it needs on the host: network, root directory, control groups. */
export class SandboxEnvironment {
  readonly #options: SandboxEnvironmentOptions;
  #link: Link | undefined;
  #resources: SandboxResources | undefined;
  #slots: SandboxSlots | undefined;

  constructor(options: SandboxEnvironmentOptions) {
    this.#options = options;
  }

  /** @throws RametError `SandboxNotReady` before it has been started */
  get sandbox(): Sandbox {
    const current = this.#slots?.current;
    if (current === undefined) throw new RametError("SandboxNotReady", "the sandbox has not been started yet");
    return current;
  }

  /** @throws RametError `SandboxNotReady` before `prepare` */
  get network(): Link {
    if (this.#link === undefined) throw new RametError("SandboxNotReady", "the sandbox has no network yet");
    return this.#link;
  }

  guest(): GuestControl {
    return new GuestControl(() => this.network.dial(guestControlPort, { control: true }), this.#options.clock);
  }

  /** The limit that the sandbox has exceeded, if any. It is then the reason why the sandbox ended. */
  exceededLimit(): RametError | undefined {
    return this.#slots?.current?.exceededLimit();
  }

  /** Prepares network, root directory and control groups. No sandbox runs yet. */
  async prepare(): Promise<void> {
    const { setting, early, log, onLost, onUnenforced } = this.#options;
    const { config, container, paths, listen } = setting;
    const { directory } = paths;
    const allocating = allocateResources(setting, early.layer);
    // It is awaited below; until then a failure must not count as unhandled.
    allocating.catch(() => undefined);
    const link = await startLink(early.link, {
      config: {
        socket: linkSocket(directory),
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
    this.#resources = resources;
    const { root, cgroup } = resources;
    // A sandbox runs also where its limits cannot be enforced.
    if (cgroup.unenforced !== undefined) onUnenforced(cgroup.unenforced);
    this.#slots = new SandboxSlots({
      sandbox: {
        setting,
        log,
        netnsPath: link.netnsPath,
        rootPath: root.path,
        cgroup: cgroup.leaves,
        container: cgroup.container,
      },
      onLost,
    });
  }

  /** Starts the first sandbox. */
  start(origin: SandboxOrigin): Promise<void> {
    return this.#prepared.start(origin);
  }

  /** Creates a sandbox that waits to replace the running one. */
  async keepWaiting(): Promise<void> {
    await this.#prepared.keepWaiting();
  }

  /** @see SandboxSlots.prepareReplacement */
  async prepareReplacement(origin: SandboxOrigin): Promise<() => Promise<void>> {
    const replace = await this.#prepared.prepareReplacement(this.sandbox, origin);
    return () => replace(() => this.network.prepare());
  }

  /** Applies the sandbox's CPU limit. Until then it shares the CPU of its Pod with the cell. */
  async limitCpu(): Promise<void> {
    await this.#resources?.cgroup.leaves?.limitCpu();
  }

  /** Lifts the sandbox's CPU limit while another sandbox replaces it. */
  async liftCpuLimit(): Promise<void> {
    await this.#resources?.cgroup.leaves?.liftCpuLimit();
  }

  async removeReplaced(): Promise<void> {
    await this.#slots?.removeReplaced();
  }

  async remove(): Promise<void> {
    await this.#slots?.remove();
    if (this.#resources !== undefined) await releaseResources(this.#resources);
    await this.#link?.stop();
  }

  get #prepared(): SandboxSlots {
    if (this.#slots === undefined) throw new RametError("SandboxNotReady", "the sandbox is not prepared yet");
    return this.#slots;
  }
}
