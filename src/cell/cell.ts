import { EventEmitter } from "node:events";
import type { Duplex } from "node:stream";
import type {
  CellState,
  CheckpointRequest,
  CheckpointResult,
  EngineBuild,
  Identity,
  RestoreRequest,
  RestoreResult,
} from "../api/cell.ts";
import { guestControlPort } from "../api/cell.ts";
import { RametError } from "../api/errors.ts";
import { CellCgroups, type MadeLeaves } from "./cgroup/cell-cgroups.ts";
import { openForRead } from "../store/open.ts";
import type { CellSetting } from "./cell-setting.ts";
import { GuestControl } from "./client/guest-control.ts";
import { cut } from "./cut.ts";
import { engineBuild } from "./engine-build.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { handOver, untilGuestAnswers } from "./hand-over.ts";
import { startLink, type Link } from "./link.ts";
import { unmetNeed } from "./needs.ts";
import { PhaseClock } from "./phase-clock.ts";
import { layRoot, type RootFolder } from "./root-folder.ts";
import { Sandbox } from "./sandbox.ts";

export interface CellDependencies {
  setting: CellSetting;
  log: EntrypointLog;
  /** For the operator; never a secret. */
  report: (message: string, detail?: Record<string, unknown>) => void;
}

/** Of the time to end, what is kept for taking down the sandbox. */
const destroyMilliseconds = 1_000;

/**
 * The state machine of one sandbox: made ready, then booted or restored, then checkpointed any number of times, then
 * stopped. One operation at a time; each can be repeated, and a repeat finds what the first one did.
 */
export class Cell {
  readonly #dependencies: CellDependencies;
  readonly #changes = new EventEmitter();
  #state: CellState = { phase: "preparing", generation: 0, ready: false };
  #link: Link | undefined;
  #sandbox: Sandbox | undefined;
  #prepared: Promise<void> | undefined;
  #build: Promise<EngineBuild> | undefined;
  #booted: Promise<CellState> | undefined;
  #restored: { checkpointId: string; result: Promise<RestoreResult> } | undefined;
  #lastCut: { checkpointId: string; result: Promise<CheckpointResult> } | undefined;
  #ending = false;
  /** Why the entrypoint was asked to end; that the sandbox's processes then go is no loss. */
  #asked: string | undefined;
  readonly #cgroups: CellCgroups;

  constructor(dependencies: CellDependencies) {
    this.#dependencies = dependencies;
    const { config, container, paths, processes } = dependencies.setting;
    this.#cgroups = new CellCgroups({
      uid: config.sandbox.uid,
      directory: paths.directory,
      limits: container.resources,
      ...(processes === undefined ? {} : { processes }),
    });
  }

  get state(): CellState {
    return this.#state;
  }

  /** Calls `listener` at each change of the state; what is returned ends that. */
  onChange(listener: (state: CellState) => void): () => void {
    this.#changes.on("change", listener);
    return () => this.#changes.off("change", listener);
  }

  /** Makes network and sandbox, and starts the container if the Pod is a new sandbox and no clone. */
  start(): Promise<void> {
    this.#prepared ??= this.#prepare();
    return this.#prepared;
  }

  /** Gives the booted sandbox its identity and opens it to traffic. */
  boot(identity: Identity): Promise<CellState> {
    const attempt = (this.#booted ??= this.#boot(identity));
    attempt.catch(() => {
      this.#booted = undefined;
    });
    return attempt;
  }

  restore(request: RestoreRequest): Promise<RestoreResult> {
    const { checkpointId } = request.grant;
    if (this.#restored !== undefined && this.#restored.checkpointId !== checkpointId) {
      throw new RametError("Conflict", `restore: the cell was restored from ${this.#restored.checkpointId} already`);
    }
    this.#restored ??= { checkpointId, result: this.#restore(request) };
    return this.#restored.result;
  }

  checkpoint(request: CheckpointRequest): Promise<CheckpointResult> {
    const { checkpointId } = request.grant;
    if (this.#lastCut?.checkpointId === checkpointId) return this.#lastCut.result;
    if (this.#state.checkpointing !== undefined) {
      throw new RametError("Conflict", `checkpoint: ${this.#state.checkpointing} is being taken`, { retryable: true });
    }
    if (this.#state.phase !== "running" || !this.#state.ready) {
      throw new RametError("SandboxNotReady", `checkpoint: the sandbox is ${this.#state.phase}, not running and ready`);
    }
    const result = this.#checkpoint(request);
    this.#lastCut = { checkpointId, result };
    result.catch(() => {
      this.#lastCut = undefined;
    });
    return result;
  }

  async pause(): Promise<CellState> {
    if (this.#state.phase === "paused") return this.#state;
    if (this.#state.phase !== "running")
      throw new RametError("SandboxNotReady", `pause: the sandbox is ${this.#state.phase}`);
    await this.#live().engine.pause();
    return this.#set({ phase: "paused", ready: false });
  }

  async resume(): Promise<CellState> {
    if (this.#state.phase === "running") return this.#state;
    if (this.#state.phase !== "paused")
      throw new RametError("SandboxNotReady", `resume: the sandbox is ${this.#state.phase}`);
    await this.#live().engine.resume();
    return this.#set({ phase: "running", ready: true });
  }

  /** Ends the sandbox; a cut that is under way is finished first. */
  async stop(reason: string): Promise<CellState> {
    if (this.#ending) return this.#state;
    this.#ending = true;
    await this.#lastCut?.result.catch(() => undefined);
    if (this.#state.phase !== "failed") this.#set({ phase: "stopping", ready: false, message: reason });
    await this.#prepared?.catch(() => undefined);
    await this.#sandbox?.destroy();
    await this.#link?.stop();
    return this.#state.phase === "failed" ? this.#state : this.#set({ phase: "stopped" });
  }

  /** Asks the entrypoint to end, as Kubernetes does, and ends the sandbox when it has or its time is over. */
  async terminate(reason: string): Promise<CellState> {
    await this.#lastCut?.result.catch(() => undefined);
    if (this.#state.phase === "running" && !this.#ending) {
      this.#asked = reason;
      const over = AbortSignal.timeout(
        Math.max(0, this.#dependencies.setting.config.graceSeconds * 1000 - destroyMilliseconds),
      );
      const ended = new Promise((resolve) => {
        this.onChange(resolve);
        over.addEventListener("abort", resolve);
      });
      await this.#live()
        .engine.signal("TERM")
        .then(() => ended)
        .catch((error: unknown) => {
          this.#dependencies.report("the entrypoint could not be asked to end", {
            message: RametError.from(error).message,
          });
        });
    }
    return this.stop(reason);
  }

  /** A raw stream to a port inside the sandbox. */
  async dial(port: number): Promise<Duplex> {
    if (!this.#state.ready)
      throw new RametError("SandboxNotReady", `port ${port}: the sandbox is ${this.#state.phase}`);
    return this.#network().dial(port);
  }

  async #prepare(): Promise<void> {
    const { setting, report } = this.#dependencies;
    const { config, container, paths, listen } = setting;
    // A restore must know it, and there is time while the network is made.
    if (config.start === "wait") this.#knowBuild().catch(() => undefined);
    const root = this.#layRoot();
    try {
      this.#link = await startLink({
        binary: paths.link,
        config: {
          socket: `${paths.directory}/link.sock`,
          listen,
          ports: container.ports,
          egress: config.egress,
          dns: config.dns,
          refuse: config.clusterRanges,
        },
        log: report,
      });
      void this.#link.closed.then((why) => {
        this.#fail(new RametError("SandboxLost", `the sandbox's network ended: ${why}`));
      });
      await this.#makeSandbox(root, undefined);
      this.#set({ phase: config.start === "wait" ? "waiting" : "booting" });
      if (config.start === "boot") await this.#live().engine.start();
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  async #boot(identity: Identity): Promise<CellState> {
    await this.#prepared;
    if (this.#state.phase === "waiting") throw new RametError("InvalidArgument", "boot: this cell waits for a restore");
    return this.#takeOver(identity, false, new PhaseClock());
  }

  async #restore({ grant, identity, contents }: RestoreRequest): Promise<RestoreResult> {
    const clock = new PhaseClock();
    try {
      const { directory } = this.#dependencies.setting.paths;
      const [session] = await Promise.all([
        clock.phase("store", () => openForRead(grant, { scratchPath: directory })),
        clock.phase("prepare", () => this.start()),
      ]);
      try {
        const unmet = unmetNeed(session.manifest, await this.#knowBuild());
        if (unmet !== undefined) throw unmet;
        this.#set({ phase: "restoring" });
        if (contents.includes("memory"))
          await clock.phase("engine", () => this.#live().engine.restore(session.imagePath));
        else await clock.phase("engine", () => this.#bootOn(`${session.imagePath}/filesystem.tar`));
        const state = await this.#takeOver(identity, true, clock);
        return { state, phases: clock.phases };
      } finally {
        // Pages may still be read in the background, through files that gVisor has open.
        await session.release();
      }
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  async #checkpoint(request: CheckpointRequest): Promise<CheckpointResult> {
    this.#set({ checkpointing: request.grant.checkpointId });
    try {
      const result = await cut(request, {
        sandbox: this.#live(),
        guest: this.#guest(),
        setting: this.#dependencies.setting,
        build: () => this.#knowBuild(),
      });
      if (!request.keepRunning) this.#set({ phase: "paused", ready: false });
      return result;
    } finally {
      const { checkpointing: _, ...rest } = this.#state;
      this.#state = rest;
      this.#set({});
    }
  }

  #knowBuild(): Promise<EngineBuild> {
    this.#build ??= engineBuild(this.#dependencies.setting.paths.runsc).then((engine) => {
      this.#set({ engine });
      return engine;
    });
    this.#build.catch(() => {
      this.#build = undefined;
    });
    return this.#build;
  }

  /** Between start or restore and traffic: the guest takes its identity, then both directions open. */
  async #takeOver(identity: Identity, clone: boolean, clock: PhaseClock): Promise<CellState> {
    const guest = this.#guest();
    const before = await clock.phase("guest", () => untilGuestAnswers(guest, this.#live().ended));
    const generation = await clock.phase("handover", () => handOver(guest, { identity, clone, before }));
    await clock.phase("gate", () => this.#network().setGate(true));
    void this.#followEntrypoint(guest);
    return this.#set({ phase: "running", ready: true, generation });
  }

  async #bootOn(filesystemTar: string): Promise<void> {
    await this.#live().destroy();
    await this.#makeSandbox(this.#layRoot(), filesystemTar);
    await this.#live().engine.start();
  }

  #layRoot(): Promise<RootFolder> {
    const { config, paths } = this.#dependencies.setting;
    const root = layRoot(config.rootPath, paths.directory);
    // Whoever awaits it hears of a failure; until then it is not one that nobody handles.
    root.catch(() => undefined);
    return root;
  }

  async #makeSandbox(layingRoot: Promise<RootFolder>, filesystemTar: string | undefined): Promise<void> {
    const { setting, log } = this.#dependencies;
    const [root, { leaves }] = await Promise.all([layingRoot, this.#makeLeaves(), this.#network().prepare()]);
    const { netnsPath } = this.#network();
    const sandbox = await Sandbox.create({ setting, log, netnsPath, filesystemTar, root, cgroup: leaves });
    this.#sandbox = sandbox;
    void sandbox.untilLost().then(() => {
      if (this.#sandbox !== sandbox || sandbox.destroyed || this.#ending) return;
      if (this.#asked !== undefined) void this.stop(this.#asked);
      else {
        this.#fail(new RametError("SandboxLost", "the sandbox's processes ended without being asked to"));
      }
    });
  }

  /** Limits that cannot be enforced keep nobody from running: it is said, once. */
  async #makeLeaves(): Promise<MadeLeaves> {
    const made = await this.#cgroups.make();
    const { unenforced } = made;
    if (unenforced !== undefined && this.#state.unenforced !== unenforced) {
      this.#dependencies.report(unenforced);
      this.#set({ unenforced });
    }
    return made;
  }

  /** When the entrypoint ends, so does the sandbox, with its exit code: what Kubernetes means by a container. */
  async #followEntrypoint(guest: GuestControl): Promise<void> {
    const sandbox = this.#live();
    const exitCode = await guest.untilExit(sandbox.ended);
    if (exitCode === undefined || this.#ending || sandbox !== this.#sandbox) return;
    const excess = sandbox.excess();
    if (excess !== undefined) {
      this.#fail(excess);
      return;
    }
    this.#set({ exitCode });
    await this.stop(`the entrypoint ended with exit code ${exitCode}`);
  }

  #guest(): GuestControl {
    return new GuestControl(() => this.#network().dial(guestControlPort, { control: true }));
  }

  #live(): Sandbox {
    if (this.#sandbox === undefined) throw new RametError("SandboxNotReady", "the sandbox has not been made yet");
    return this.#sandbox;
  }

  #network(): Link {
    if (this.#link === undefined) throw new RametError("SandboxNotReady", "the sandbox has no network yet");
    return this.#link;
  }

  #fail(error: unknown): void {
    if (this.#ending || this.#state.phase === "failed") return;
    const { code, message } = this.#sandbox?.excess() ?? RametError.from(error);
    this.#dependencies.report("cell failed", { code, message });
    this.#set({ phase: "failed", ready: false, code, message });
  }

  #set(change: Partial<CellState>): CellState {
    this.#state = { ...this.#state, ...change };
    this.#changes.emit("change", this.#state);
    return this.#state;
  }
}
