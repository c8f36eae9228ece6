import type { Duplex } from "node:stream";
import type {
  CellState,
  CheckpointRequest,
  CheckpointResult,
  EngineBuild,
  Identity,
  RestoreRequest,
  RestoreResult,
  RestoreInPlaceCall,
} from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { PhaseClock } from "../../base/phases.ts";
import { cut } from "../checkpoint/capture.ts";
import { openRestoreSource, type RestoreSource } from "../checkpoint/restore-source.ts";
import type { GuestControl } from "../client/guest-control.ts";
import { engineBuild } from "../sandbox/engine.ts";
import type { EntrypointLog } from "../sandbox/entrypoint-log.ts";
import { GuestIdentity } from "../sandbox/guest-identity.ts";
import { untilGuestAnswers } from "../sandbox/handover.ts";
import { Surroundings } from "../sandbox/sandbox-environment.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import { LastOperation, States } from "./states.ts";

export interface CellDependencies {
  setting: CellSetting;
  log: EntrypointLog;
  /** For the operator; never a secret. */
  report: (message: string, detail?: Record<string, unknown>) => void;
}

/** Of the time to end, what is kept for taking down the sandbox. */
const destroyMilliseconds = 1_000;

/** How long a clone has the processor for its first answers. */
const restMilliseconds = 200;

/**
 * The state machine of one sandbox: made ready, then booted or restored, then checkpointed any number of times, then
 * stopped. One operation at a time; each can be repeated, and a repeat finds what the first one did.
 */
export class Cell {
  readonly #dependencies: CellDependencies;
  readonly #states = new States();
  #prepared: Promise<void> | undefined;
  #build: Promise<EngineBuild> | undefined;
  #restored: { checkpointId: string; result: Promise<RestoreResult> } | undefined;
  readonly #lastBoot = new LastOperation<CellState>();
  readonly #lastSwap = new LastOperation<RestoreResult>();
  readonly #lastCut = new LastOperation<CheckpointResult>();
  readonly #identity = new GuestIdentity();
  #adopting: Promise<unknown> = Promise.resolve();
  #loaded: Promise<CellState> | undefined;
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
        if (this.state.unenforced === unenforced) return;
        dependencies.report(unenforced);
        this.#states.set({ unenforced });
      },
    });
  }

  get state(): CellState {
    return this.#states.now;
  }

  /** @see GuestIdentity.accessToken */
  get accessToken(): string | undefined {
    return this.#identity.accessToken;
  }

  /** Calls `listener` at each change of the state; what is returned ends that. */
  onChange(listener: (state: CellState) => void): () => void {
    return this.#states.onChange(listener);
  }

  /** Makes what is around the sandbox, and starts that if the Pod is a new sandbox and no clone. */
  start(): Promise<void> {
    this.#prepared ??= this.#prepare();
    return this.#prepared;
  }

  /** Gives the booted sandbox its identity and opens it to traffic. */
  boot(identity: Identity): Promise<CellState> {
    return this.#lastBoot.repeated("boot") ?? this.#lastBoot.remember("boot", this.#boot(identity));
  }

  /**
   * Gives the running sandbox another identity, one after the other; processes that run keep their environment, new ones get
   * the new one. The identity that it has already changes nothing.
   */
  adopt(identity: Identity): Promise<CellState> {
    const attempt = this.#adopting.then(() => this.#adopt(identity));
    this.#adopting = attempt.catch(() => undefined);
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

  /**
   * Ends what runs, and has a checkpoint go on in its place. Whatever is wrong with the checkpoint is found before anything
   * is ended, and then the sandbox goes on as it was.
   */
  swap(request: RestoreInPlaceCall): Promise<RestoreResult> {
    const repeated = this.#lastSwap.repeated(request.request);
    if (repeated !== undefined) return repeated;
    this.#requireFree("swap");
    return this.#lastSwap.remember(request.request, this.#swap(request));
  }

  checkpoint(request: CheckpointRequest): Promise<CheckpointResult> {
    const { checkpointId } = request.grant;
    const repeated = this.#lastCut.repeated(checkpointId);
    if (repeated !== undefined) return repeated;
    this.#requireFree("checkpoint");
    return this.#lastCut.remember(checkpointId, this.#checkpoint(request));
  }

  /** Ends the sandbox; a cut that is under way is finished first. */
  async stop(reason: string): Promise<CellState> {
    if (this.#ending) return this.state;
    this.#ending = true;
    await Promise.all([this.#lastCut.settled(), this.#lastSwap.settled()]);
    if (this.state.phase !== "failed") this.#states.set({ phase: "stopping", ready: false, message: reason });
    await this.#prepared?.catch(() => undefined);
    await this.#surroundings.remove();
    return this.state.phase === "failed" ? this.state : this.#states.set({ phase: "stopped" });
  }

  /** Asks the entrypoint to end, as Kubernetes does, and ends the sandbox when it has or its time is over. */
  async terminate(reason: string): Promise<CellState> {
    await this.#lastCut.settled();
    if (this.state.phase === "running" && !this.#ending) {
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

  /** Answers when all of a restored memory is in; at once where nothing is being read. */
  untilLoaded(): Promise<CellState> {
    if (this.state.memory !== "loading") return Promise.resolve(this.state);
    this.#loaded ??= this.#awaitPages().finally(() => {
      this.#loaded = undefined;
    });
    return this.#loaded;
  }

  /** A raw stream to a port inside the sandbox. */
  async dial(port: number): Promise<Duplex> {
    if (!this.state.ready) throw new RametError("SandboxNotReady", `port ${port}: the sandbox is ${this.state.phase}`);
    return this.#surroundings.network.dial(port);
  }

  /** What has been asked to end is on its way: a checkpoint of it would be one of a sandbox that ends. */
  #requireFree(what: string): void {
    if (this.#asked !== undefined) throw new RametError("SandboxNotReady", `${what}: ${this.#asked}`);
    this.#states.requireFree(what);
  }

  async #prepare(): Promise<void> {
    const { start } = this.#dependencies.setting.config;
    try {
      // A restore must know it, and there is time while the network is made.
      if (start === "wait") this.#knowBuild().catch(() => undefined);
      await this.#surroundings.make();
      this.#states.set({ phase: start === "wait" ? "waiting" : "booting" });
      if (start === "boot") await this.#surroundings.start("image");
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  async #boot(identity: Identity): Promise<CellState> {
    await this.#prepared;
    if (this.state.phase === "waiting") throw new RametError("InvalidArgument", "boot: this cell waits for a restore");
    const state = await this.#takeOver(identity, { clone: false, before: 0 }, new PhaseClock());
    this.#keepWaiting();
    return state;
  }

  async #adopt(identity: Identity): Promise<CellState> {
    this.#states.requireReady("identity");
    if (this.#identity.has(identity)) return this.state;
    const generation = await this.#identity.give(this.#surroundings.guest(), identity, { clone: false });
    return this.#states.set({ generation });
  }

  async #restore(request: RestoreRequest): Promise<RestoreResult> {
    const clock = new PhaseClock();
    try {
      const [source] = await Promise.all([
        clock.phase("store", () => this.#openSource(request)),
        clock.phase("prepare", () => this.start()),
      ]);
      try {
        this.#states.set({ phase: "restoring" });
        await clock.phase("engine", () => this.#surroundings.start(source.origin));
        if (source.memory !== undefined) this.#states.set({ memory: source.memory });
        const state = await this.#takeOver(request.identity, { clone: true, before: source.generation }, clock);
        this.#keepWaiting();
        return { state, phases: clock.phases };
      } finally {
        // Pages may still be read in the background, through files that gVisor has open.
        source.release();
      }
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  async #swap(request: RestoreInPlaceCall): Promise<RestoreResult> {
    const clock = new PhaseClock();
    this.#states.set({ swapping: request.request });
    try {
      const source = await clock.phase("store", () => this.#openSource(request));
      try {
        const replace = await clock.phase("prepare", () => this.#surroundings.replacement(source.origin));
        return await this.#replace(replace, { request, source, clock });
      } finally {
        source.release();
      }
    } finally {
      this.#states.unset("swapping");
    }
  }

  /** From here on there is no way back: what fails ends the sandbox. */
  async #replace(
    replace: () => Promise<void>,
    { request, source, clock }: { request: RestoreInPlaceCall; source: RestoreSource; clock: PhaseClock },
  ): Promise<RestoreResult> {
    try {
      this.#states.set({ phase: "restoring", ready: false });
      await clock.phase("gate", () => this.#surroundings.network.setGate(false));
      this.#loaded = undefined;
      this.#states.unset("memory");
      await clock.phase("engine", replace);
      if (source.memory !== undefined) this.#states.set({ memory: source.memory });
      const state = await this.#takeOver(request.identity, { clone: true, before: source.generation }, clock);
      return { state, phases: clock.phases };
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  /** A little later: whoever waits for the sandbox goes first. */
  #tidyUp(): void {
    const tidyUp = (): void => {
      this.#surroundings.tidyUp().catch((error: unknown) => {
        const { message } = RametError.from(error);
        this.#dependencies.report("something was left that nobody needs", { message });
      });
    };
    setTimeout(tidyUp, restMilliseconds).unref();
  }

  #openSource(request: RestoreRequest): Promise<RestoreSource> {
    const { setting, report } = this.#dependencies;
    const { directory } = setting.paths;
    return openRestoreSource(request, { directory, report, build: () => this.#knowBuild() });
  }

  async #checkpoint(request: CheckpointRequest): Promise<CheckpointResult> {
    this.#states.set({ checkpointing: request.grant.checkpointId });
    try {
      const result = await cut(request, {
        sandbox: this.#surroundings.sandbox,
        guest: this.#surroundings.guest(),
        setting: this.#dependencies.setting,
        build: () => this.#knowBuild(),
        generation: () => this.#identity.generation,
      });
      if (!request.keepRunning) this.#states.set({ phase: "paused", ready: false });
      return result;
    } finally {
      this.#states.unset("checkpointing");
    }
  }

  #knowBuild(): Promise<EngineBuild> {
    const { engine: known, paths } = this.#dependencies.setting;
    this.#build ??= (known === undefined ? engineBuild(paths) : Promise.resolve(known)).then((engine) => {
      this.#states.set({ engine });
      return engine;
    });
    this.#build.catch(() => {
      this.#build = undefined;
    });
    return this.#build;
  }

  /** Between start or restore and traffic: the guest takes its identity, then both directions open. */
  async #takeOver(
    identity: Identity,
    { clone, before }: { clone: boolean; before: number | undefined },
    clock: PhaseClock,
  ): Promise<CellState> {
    const guest = this.#surroundings.guest();
    const { ended } = this.#surroundings.sandbox;
    this.#identity.begin(before);
    const generation = await this.#identity.give(guest, identity, {
      clone,
      via: (what, call) => clock.phase(what, () => untilGuestAnswers(call, ended)),
    });
    await clock.phase("gate", () => this.#surroundings.network.setGate(true));
    void this.#followEntrypoint(guest);
    this.#tidyUp();
    // A checkpoint must know it; that there will be one is likely.
    this.#knowBuild().catch(() => undefined);
    return this.#states.set({ phase: "running", ready: true, generation });
  }

  /** Not again after a swap: whoever claimed the sandbox has what they asked for, and a second one is rare. */
  #keepWaiting(): void {
    if (this.#dependencies.setting.config.keepsWaiting !== true) return;
    this.#surroundings.keepWaiting().catch((error: unknown) => {
      this.#dependencies.report("no sandbox could be made to wait", { message: RametError.from(error).message });
    });
  }

  /** @throws RametError as `runsc` has it; whether the sandbox lives is another question */
  async #awaitPages(): Promise<CellState> {
    const { sandbox } = this.#surroundings;
    await sandbox.engine.untilLoaded();
    // Of one that was replaced meanwhile there is nothing to say.
    return sandbox === this.#surroundings.sandbox ? this.#states.set({ memory: "loaded" }) : this.state;
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
    this.#states.set({ exitCode });
    await this.stop(`the entrypoint ended with exit code ${exitCode}`);
  }

  #fail(error: unknown): void {
    if (this.#ending || this.state.phase === "failed") return;
    const { code, message } = this.#surroundings.excess() ?? RametError.from(error);
    this.#dependencies.report("cell failed", { code, message });
    this.#states.set({ phase: "failed", ready: false, code, message });
  }
}
