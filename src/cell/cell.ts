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
import { RametError } from "../api/errors.ts";
import { openForRead } from "../store/open.ts";
import type { CellSetting } from "./cell-setting.ts";
import type { GuestControl } from "./client/guest-control.ts";
import { cut } from "./cut.ts";
import { engineBuild } from "./engine-build.ts";
import type { EntrypointLog } from "./entrypoint-log.ts";
import { handOver, untilGuestAnswers } from "./hand-over.ts";
import { unmetNeed } from "./needs.ts";
import { PhaseClock } from "./phase-clock.ts";
import { Surroundings } from "./surroundings.ts";

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
  #prepared: Promise<void> | undefined;
  #build: Promise<EngineBuild> | undefined;
  #booted: Promise<CellState> | undefined;
  #restored: { checkpointId: string; result: Promise<RestoreResult> } | undefined;
  #lastCut: { checkpointId: string; result: Promise<CheckpointResult> } | undefined;
  #ending = false;
  /** Why the entrypoint was asked to end; that the sandbox's processes then go is no loss. */
  #asked: string | undefined;
  readonly #surroundings: Surroundings;

  constructor(dependencies: CellDependencies) {
    this.#dependencies = dependencies;
    this.#surroundings = new Surroundings({
      ...dependencies,
      onLost: (why) => {
        if (this.#asked === undefined) this.#fail(why);
        else void this.stop(this.#asked);
      },
      onUnenforced: (unenforced) => {
        if (this.#state.unenforced === unenforced) return;
        dependencies.report(unenforced);
        this.#set({ unenforced });
      },
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
    await this.#surroundings.sandbox.engine.pause();
    return this.#set({ phase: "paused", ready: false });
  }

  async resume(): Promise<CellState> {
    if (this.#state.phase === "running") return this.#state;
    if (this.#state.phase !== "paused")
      throw new RametError("SandboxNotReady", `resume: the sandbox is ${this.#state.phase}`);
    await this.#surroundings.sandbox.engine.resume();
    return this.#set({ phase: "running", ready: true });
  }

  /** Ends the sandbox; a cut that is under way is finished first. */
  async stop(reason: string): Promise<CellState> {
    if (this.#ending) return this.#state;
    this.#ending = true;
    await this.#lastCut?.result.catch(() => undefined);
    if (this.#state.phase !== "failed") this.#set({ phase: "stopping", ready: false, message: reason });
    await this.#prepared?.catch(() => undefined);
    await this.#surroundings.remove();
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
        this.onChange(({ phase, exitCode }) => {
          if (phase !== "running" || exitCode !== undefined) resolve(undefined);
        });
        over.addEventListener("abort", resolve);
      });
      await this.#surroundings.sandbox.engine
        .signal("TERM")
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
    return this.#surroundings.network.dial(port);
  }

  async #prepare(): Promise<void> {
    const { start } = this.#dependencies.setting.config;
    try {
      // A restore must know it, and there is time while the network is made.
      if (start === "wait") this.#knowBuild().catch(() => undefined);
      await this.#surroundings.make();
      this.#set({ phase: start === "wait" ? "waiting" : "booting" });
      if (start === "boot") await this.#surroundings.sandbox.engine.start();
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
          await clock.phase("engine", () => this.#surroundings.sandbox.engine.restore(session.imagePath));
        else await clock.phase("engine", () => this.#bootOn(`${session.imagePath}/filesystem.tar`));
        const state = await this.#takeOver(identity, true, clock);
        return { state, phases: clock.phases };
      } finally {
        // Pages may still be read in the background, through files that gVisor has open. Nobody waits for this.
        session.release().catch((error: unknown) => {
          this.#dependencies.report("a restore's folder was left to the sweep", {
            message: RametError.from(error).message,
          });
        });
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
        sandbox: this.#surroundings.sandbox,
        guest: this.#surroundings.guest(),
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
    const { engine: known, paths } = this.#dependencies.setting;
    this.#build ??= (known === undefined ? engineBuild(paths.runsc) : Promise.resolve(known)).then((engine) => {
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
    const guest = this.#surroundings.guest();
    const before = await clock.phase("guest", () => untilGuestAnswers(guest, this.#surroundings.sandbox.ended));
    const generation = await clock.phase("handover", () => handOver(guest, { identity, clone, before }));
    await clock.phase("gate", () => this.#surroundings.network.setGate(true));
    void this.#followEntrypoint(guest);
    // A checkpoint must know it; that there will be one is likely.
    this.#knowBuild().catch(() => undefined);
    return this.#set({ phase: "running", ready: true, generation });
  }

  async #bootOn(filesystemTar: string): Promise<void> {
    await this.#surroundings.makeAnew(filesystemTar);
    await this.#surroundings.sandbox.engine.start();
  }

  /** When the entrypoint ends, so does the sandbox, with its exit code: what Kubernetes means by a container. */
  async #followEntrypoint(guest: GuestControl): Promise<void> {
    const sandbox = this.#surroundings.sandbox;
    const exitCode = await guest.untilExit(sandbox.ended);
    if (exitCode === undefined || this.#ending || sandbox.destroyed) return;
    const excess = sandbox.excess();
    if (excess !== undefined) {
      this.#fail(excess);
      return;
    }
    this.#set({ exitCode });
    await this.stop(`the entrypoint ended with exit code ${exitCode}`);
  }

  #fail(error: unknown): void {
    if (this.#ending || this.#state.phase === "failed") return;
    const { code, message } = this.#surroundings.excess() ?? RametError.from(error);
    this.#dependencies.report("cell failed", { code, message });
    this.#set({ phase: "failed", ready: false, code, message });
  }

  #set(change: Partial<CellState>): CellState {
    this.#state = { ...this.#state, ...change };
    this.#changes.emit("change", this.#state);
    return this.#state;
  }
}
