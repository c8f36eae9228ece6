import { guestControlPort } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import { GuestControl } from "../client/guest-control.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { linkSocket } from "../network/link-dial.ts";
import { type Link, startLink } from "../network/link.ts";
import { SandboxSlots } from "./sandbox-slots.ts";
import { layPlace, removePlace, type SandboxPlace } from "./sandbox-place.ts";
import type { Sandbox, SandboxOrigin } from "./sandbox.ts";

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
  #link: Link | undefined;
  #place: SandboxPlace | undefined;
  #occupants: SandboxSlots | undefined;

  constructor(options: SurroundingsOptions) {
    this.#options = options;
  }

  /** @throws RametError `SandboxNotReady` before it has been started */
  get sandbox(): Sandbox {
    const present = this.#occupants?.present;
    if (present === undefined) throw new RametError("SandboxNotReady", "the sandbox has not been started yet");
    return present;
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
    return this.#occupants?.present?.excess();
  }

  /** Makes what a sandbox needs around it; nothing runs in it yet. */
  async make(): Promise<void> {
    const { setting, log, report, onLost, onUnenforced } = this.#options;
    const { config, container, paths, listen } = setting;
    const { directory } = paths;
    const placed = layPlace(setting);
    // It is awaited below; until then a failure is not an unhandled one.
    placed.catch(() => undefined);
    const link = await startLink({
      binary: paths.link,
      log: report,
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
    const [place] = await Promise.all([placed, link.prepare()]);
    this.#place = place;
    // Limits that cannot be enforced keep nobody from running: it is said.
    if (place.cgroup.unenforced !== undefined) onUnenforced(place.cgroup.unenforced);
    const { netnsPath } = link;
    const { root, cgroup } = place;
    this.#occupants = new SandboxSlots({
      place: { setting, log, netnsPath, rootPath: root.path, cgroup: cgroup.leaves },
      onLost,
    });
  }

  /** Starts the first sandbox in what `make` has made. */
  start(origin: SandboxOrigin): Promise<void> {
    return this.#made.start(origin);
  }

  /** Makes a sandbox that waits to replace the one that runs. */
  async keepWaiting(): Promise<void> {
    await this.#made.keepWaiting();
  }

  /** @see Occupants.replacement */
  async replacement(origin: SandboxOrigin): Promise<() => Promise<void>> {
    const replace = await this.#made.replacement(this.sandbox, origin);
    return () => replace(() => this.network.prepare());
  }

  /** Removes the sandbox that was replaced. */
  async tidyUp(): Promise<void> {
    await this.#occupants?.removeReplaced();
  }

  async remove(): Promise<void> {
    await this.#occupants?.remove();
    if (this.#place !== undefined) await removePlace(this.#place);
    await this.#link?.stop();
  }

  get #made(): SandboxSlots {
    if (this.#occupants === undefined) throw new RametError("SandboxNotReady", "there is no place for the sandbox yet");
    return this.#occupants;
  }
}
