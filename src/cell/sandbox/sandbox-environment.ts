import { guestControlPort } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import { GuestControl } from "../client/guest-control.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import type { Forecast } from "../prewarm/forecast.ts";
import { layGroundwork, type Groundwork } from "../prewarm/groundwork.ts";
import { linkSocket } from "../network/link-dial.ts";
import type { Link } from "../network/link.ts";
import { SandboxSlots } from "./sandbox-slots.ts";
import { layPlace, removePlace, type SandboxPlace } from "./sandbox-place.ts";
import type { Sandbox, SandboxOrigin } from "./sandbox.ts";

export interface SurroundingsOptions {
  setting: CellSetting;
  log: EntrypointLog;
  /** What was made before the setting was known. */
  groundwork?: Groundwork | undefined;
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
  /** What was made for another sandbox than this. */
  #unfit: Forecast | undefined;

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
    const { setting, log, groundwork: given, report, onLost, onUnenforced } = this.#options;
    const { config, container, paths, listen } = setting;
    const { directory } = paths;
    const groundwork = given ?? layGroundwork({ link: paths.link, directory, report });
    const making = this.#makePlace(groundwork);
    const link = await groundwork.link.serve({
      socket: linkSocket(directory),
      listen,
      ports: container.ports,
      egress: config.egress,
      dns: config.dns,
      refuse: config.clusterRanges,
    });
    this.#link = link;
    void link.closed.then((why) => {
      onLost(new RametError("SandboxLost", `the sandbox's network ended: ${why}`));
    });
    const [{ place, waiting }] = await Promise.all([making, link.prepare()]);
    this.#place = place;
    // Limits that cannot be enforced keep nobody from running: it is said.
    if (place.cgroup.unenforced !== undefined) onUnenforced(place.cgroup.unenforced);
    const { netnsPath } = link;
    const { root, cgroup } = place;
    this.#occupants = new SandboxSlots({
      place: { setting, log, netnsPath, rootPath: root.path, cgroup: cgroup.leaves },
      waiting,
      onLost,
    });
  }

  /** Starts the first sandbox in what `make` has made. */
  start(origin: SandboxOrigin): Promise<void> {
    return this.#made.start(origin);
  }

  /** Makes a sandbox that waits to replace the one that runs. What was made in vain goes at last. */
  async keepWaiting(): Promise<void> {
    await this.#made.keepWaiting();
  }

  /** @see Occupants.replacement */
  async replacement(origin: SandboxOrigin): Promise<() => Promise<void>> {
    const replace = await this.#made.replacement(this.sandbox, origin);
    return () => replace(() => this.network.prepare());
  }

  /** Takes away what nobody needs any more: what was replaced, and what was made for another sandbox. */
  async tidyUp(): Promise<void> {
    const unfit = this.#unfit;
    this.#unfit = undefined;
    await Promise.all([unfit?.remove(), this.#occupants?.removeReplaced()]);
  }

  async remove(): Promise<void> {
    await Promise.all([this.#occupants?.remove(), this.tidyUp()]);
    if (this.#place !== undefined) await removePlace(this.#place);
    await this.#link?.stop();
  }

  get #made(): SandboxSlots {
    if (this.#occupants === undefined) throw new RametError("SandboxNotReady", "there is no place for the sandbox yet");
    return this.#occupants;
  }

  /** What was made in expectation of this sandbox, or what is made now. */
  #makePlace({ layer, forecast }: Groundwork): Promise<{ place: SandboxPlace; waiting?: Sandbox }> {
    const making = (async () => {
      const expected = await forecast?.take(this.#options.setting);
      if (expected !== undefined) return expected;
      this.#unfit = forecast;
      return { place: await layPlace(this.#options.setting, layer) };
    })();
    // Whoever awaits it hears of a failure; until then it is not one that nobody handles.
    making.catch(() => undefined);
    return making;
  }
}
