import type { Duplex } from "node:stream";
import type { EngineBuild } from "../../api/engine/engine.ts";
import type {
  CellState,
  CheckpointRequest,
  CheckpointResult,
  EgressPolicy,
  EgressReport,
  HoldRequest,
  Identity,
  LinkCredentials,
  ReleaseRequest,
  ReleaseResult,
  RestoreInPlaceCall,
  RestoreRequest,
  RestoreResult,
} from "../../api/wire/cell-api.ts";
import { PhaseClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { type HeldPause, captureCheckpoint } from "../checkpoint/capture.ts";
import type { EntrypointExit } from "../client/guest-control.ts";
import type { DialOptions } from "../network/link-lines.ts";
import { engineBuild } from "../sandbox/engine-build.ts";
import { GuestIdentity, capacityOf } from "../sandbox/handover.ts";
import { SandboxEnvironment } from "../sandbox/sandbox-environment.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { type CellSetting, ownLayer, stateOf } from "../setting/cell-setting.ts";
import { type CellCore, CellCredentials, type CellDependencies, createWaiting, createWaitingOn } from "./cell-core.ts";
import { Hold } from "./hold.ts";
import { openSandbox, restore, restoreInPlace } from "./restore.ts";
import { LastOperation, States } from "./states.ts";
import { Termination } from "./termination.ts";

/**
 * The state machine of one sandbox: prepared, then booted or restored, then checkpointed any number of times, then stopped.
 * It runs one operation at a time. A repeated call returns the result of the first one.
 */
export class Cell {
  readonly #setting: CellSetting;
  readonly #core: CellCore;
  readonly #states = new States();
  readonly #identity: GuestIdentity;
  readonly #environment: SandboxEnvironment;
  readonly #credentials = new CellCredentials();
  #prepared: Promise<void> | undefined;
  #build: Promise<EngineBuild> | undefined;
  /** Undefined: the sandbox was booted here, or its record has no features. */
  #memoryFeatures: readonly string[] | undefined;
  #restored: { checkpointId: string; result: Promise<RestoreResult> } | undefined;
  readonly #lastBoot = new LastOperation<CellState>();
  readonly #lastRestoreInPlace = new LastOperation<RestoreResult>();
  readonly #lastCheckpoint = new LastOperation<CheckpointResult>();
  readonly #hold: Hold;
  #adopting: Promise<unknown> = Promise.resolve();
  #loading: { sandbox: Sandbox; result: Promise<CellState> } | undefined;
  #stopping = false;
  readonly termination: Termination;

  constructor({ setting, spawnedLink, log, clock, report, cache, activity }: CellDependencies) {
    this.#setting = setting;
    const capacity = capacityOf(setting.container.resources);
    this.#states.set({ capacity, ...stateOf(setting) });
    this.#identity = new GuestIdentity(clock, capacity);
    this.#environment = new SandboxEnvironment({
      setting,
      spawnedLink,
      log,
      clock,
      onLost: (why) => {
        const { reason } = this.termination;
        if (reason === undefined) this.#fail(why);
        else void this.stop(reason);
      },
      onUnenforced: (unenforced) => {
        if (this.state.unenforced === unenforced) return;
        report(unenforced);
        this.#states.set({ unenforced });
      },
      report,
    });
    this.#core = {
      setting,
      clock,
      states: this.#states,
      identity: this.#identity,
      environment: this.#environment,
      credentials: this.#credentials,
      cache,
      activity,
      report,
      engineBuild: () => this.#engineBuild(),
      setMemoryFeatures: (features) => {
        this.#memoryFeatures = features;
      },
      fail: this.#fail.bind(this),
      onEntrypointExit: (exit) => {
        void this.#entrypointExited(exit);
      },
    };
    this.#hold = new Hold(this.#core);
    this.termination = new Termination(this.#core);
  }

  get state(): CellState {
    return this.#states.now;
  }

  /** @see GuestIdentity.accessToken */
  get accessToken(): string | undefined {
    return this.#identity.accessToken;
  }

  /** Calls `listener` on each change of the state. Returns a function that removes the listener. */
  onChange(listener: (state: CellState) => void): () => void {
    return this.#states.onChange(listener);
  }

  /** Prepares the sandbox's environment, and starts the sandbox if the Pod is a new sandbox and not a clone. */
  start(): Promise<void> {
    this.#prepared ??= this.#prepare();
    return this.#prepared;
  }

  /** Assigns an identity to the booted sandbox and opens it to traffic. */
  boot(identity: Identity): Promise<CellState> {
    return this.#lastBoot.repeated("boot") ?? this.#lastBoot.remember("boot", this.#boot(identity));
  }

  /** Assigns another identity to the running sandbox. Does nothing if it has that identity already. */
  adopt(identity: Identity): Promise<CellState> {
    const attempt = this.#adopting.then(() => this.#adopt(identity));
    this.#adopting = attempt.catch(() => undefined);
    return attempt;
  }

  /** Replaces the egress policy. The new one is in effect when this resolves, also for open connections. */
  async setEgress(policy: EgressPolicy): Promise<CellState> {
    await this.#environment.network.setEgress(policy);
    return this.state;
  }

  /** Replaces the credentials that link adds to requests of the sandbox. They apply to the next request. */
  async setCredentials(credentials: LinkCredentials): Promise<CellState> {
    await this.start();
    await this.#credentials.give(this.#environment.network, credentials);
    // A sandbox that is not open yet gets the CA before its identity.
    if (this.state.ready) await this.#credentials.trustedBy(this.#environment.guest());
    return this.state;
  }

  /** The sandbox's outgoing traffic so far. */
  async egressReport(): Promise<EgressReport> {
    return this.#environment.network.report();
  }

  restore(request: RestoreRequest): Promise<RestoreResult> {
    const { checkpointId } = request.grant;
    if (this.#restored !== undefined && this.#restored.checkpointId !== checkpointId) {
      throw new RametError("Conflict", `restore: the cell was already restored from ${this.#restored.checkpointId}`);
    }
    this.#restored ??= { checkpointId, result: this.#restore(request) };
    return this.#restored.result;
  }

  /** @see restoreInPlace */
  restoreInPlace(request: RestoreInPlaceCall): Promise<RestoreResult> {
    const repeated = this.#lastRestoreInPlace.repeated(request.request);
    if (repeated !== undefined) return repeated;
    this.#requireIdle("restore in place");
    return this.#lastRestoreInPlace.remember(request.request, restoreInPlace(this.#core, request));
  }

  checkpoint(request: CheckpointRequest): Promise<CheckpointResult> {
    const { checkpointId } = request.grant;
    const repeated = this.#lastCheckpoint.repeated(checkpointId);
    if (repeated !== undefined) return repeated;
    if (request.held === undefined) this.#requireIdle("checkpoint");
    const held = request.held === undefined ? undefined : this.#hold.take(checkpointId);
    return this.#lastCheckpoint.remember(checkpointId, this.#checkpoint(request, held));
  }

  /** Pauses the sandbox until the capture of this checkpoint, until `release`, or for the requested time. */
  async hold(request: HoldRequest): Promise<CellState> {
    if (this.#hold.isFor(request.checkpointId)) return this.state;
    this.#requireIdle("hold");
    await this.#hold.begin(request);
    return this.state;
  }

  /** Resumes the sandbox, if it is paused for this checkpoint. */
  release({ checkpointId }: ReleaseRequest): Promise<ReleaseResult> {
    return this.#hold.end(checkpointId);
  }

  /** Flushes the files of the sandbox and of its volumes. */
  async sync(): Promise<CellState> {
    this.#requireIdle("sync");
    await this.#hold.flush();
    return this.state;
  }

  /** Stops the sandbox after the operation in progress, if any, has finished. */
  async stop(reason: string): Promise<CellState> {
    if (this.#stopping) return this.state;
    this.#stopping = true;
    await this.#hold.end();
    await Promise.all([this.#lastCheckpoint.settled(), this.#lastRestoreInPlace.settled()]);
    if (this.state.phase !== "failed") this.#states.set({ phase: "stopping", ready: false, message: reason });
    await this.#prepared?.catch(() => undefined);
    await this.#environment.remove();
    return this.state.phase === "failed" ? this.state : this.#states.set({ phase: "stopped" });
  }

  /** Sends SIGTERM to the entrypoint, as Kubernetes does, and stops the sandbox when it exits or the grace period is over. */
  async terminate(reason: string): Promise<CellState> {
    await this.termination.held();
    await this.#hold.end();
    await this.#lastCheckpoint.settled();
    if (this.state.phase === "running" && !this.#stopping) await this.termination.signalEntrypoint(reason);
    return this.stop(reason);
  }

  /** Resolves when all of a restored memory is loaded. */
  untilLoaded(): Promise<CellState> {
    if (this.state.memory !== "loading") return Promise.resolve(this.state);
    const { sandbox } = this.#environment;
    if (this.#loading?.sandbox !== sandbox) this.#loading = { sandbox, result: this.#untilPagesLoaded(sandbox) };
    return this.#loading.result;
  }

  /** Opens a raw stream to a port inside the sandbox. */
  async dial(port: number, options?: DialOptions): Promise<Duplex> {
    if (!this.state.ready) throw new RametError("SandboxNotReady", `port ${port}: the sandbox is ${this.state.phase}`);
    return this.#environment.network.dial(port, options);
  }

  async #prepare(): Promise<void> {
    const { start, restores, layers = [] } = this.#setting.config;
    try {
      if (this.#setting.problem !== undefined) throw this.#setting.problem;
      // The network takes longer.
      this.#engineBuild().catch(() => undefined);
      await this.#environment.prepare();
      this.#states.set({ phase: start === "wait" ? "waiting" : "booting" });
      if (start === "boot") await this.#environment.start({ origin: "image", layers: [] });
      else if (restores === "memory") await createWaitingOn(this.#core, layers);
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  async #boot(identity: Identity): Promise<CellState> {
    await this.#prepared;
    if (this.state.phase === "waiting") throw new RametError("InvalidArgument", "boot: this cell waits for a restore");
    const state = await openSandbox(this.#core, { identity, clone: false, before: 0 }, new PhaseClock());
    this.#keepWaiting();
    return state;
  }

  async #adopt(identity: Identity): Promise<CellState> {
    this.#states.requireReady("identity");
    if (this.#identity.has(identity)) return this.state;
    const guest = this.#environment.guest();
    const generation = await this.#identity.give(guest, identity, { clone: false });
    return this.#states.set({ generation });
  }

  async #restore(request: RestoreRequest): Promise<RestoreResult> {
    const result = await restore(this.#core, request, () => this.start());
    this.#keepWaiting();
    return result;
  }

  async #checkpoint(request: CheckpointRequest, held?: HeldPause): Promise<CheckpointResult> {
    this.#states.set({ checkpointing: request.grant.checkpointId });
    try {
      const result = await captureCheckpoint(request, {
        sandbox: this.#environment.sandbox,
        guest: this.#environment.guest(),
        setting: this.#setting,
        layerBytes: (this.state.writableLayer ?? ownLayer(this.#setting)).sizeBytes,
        clock: this.#core.clock,
        activity: this.#core.activity,
        build: () => this.#engineOfMemory(),
        generation: () => this.#identity.generation,
        held,
      });
      if (!request.keepRunning) this.#states.set({ phase: "paused", ready: false });
      return result;
    } finally {
      this.#states.unset("checkpointing");
    }
  }

  /** A checkpoint of a sandbox that is terminating would capture a sandbox that exits. */
  #requireIdle(what: string): void {
    const { reason } = this.termination;
    if (reason !== undefined) throw new RametError("SandboxNotReady", `${what}: ${reason}`);
    this.#states.requireIdle(what);
  }

  async #engineOfMemory(): Promise<EngineBuild> {
    const build = await this.#engineBuild();
    return this.#memoryFeatures === undefined ? build : { ...build, cpuFeatures: [...this.#memoryFeatures] };
  }

  #engineBuild(): Promise<EngineBuild> {
    const { engine: known, paths } = this.#setting;
    this.#build ??= (known === undefined ? engineBuild(paths) : Promise.resolve(known)).then((engine) => {
      this.#states.set({ engine });
      return engine;
    });
    this.#build.catch(() => {
      this.#build = undefined;
    });
    return this.#build;
  }

  /** Creates the waiting sandbox once. After a restore in place there is no second one: that is rare. */
  #keepWaiting(): void {
    if (this.#setting.config.keepsWaiting === true) createWaiting(this.#core, this.#environment.sandbox.layers);
  }

  /** @throws RametError from `runsc`. It does not mean that the sandbox has ended. */
  async #untilPagesLoaded(sandbox: Sandbox): Promise<CellState> {
    try {
      await sandbox.engine.untilLoaded();
    } finally {
      if (this.#loading?.sandbox === sandbox) this.#loading = undefined;
    }
    const wasReplaced = sandbox !== this.#environment.sandbox;
    return wasReplaced ? this.state : this.#states.set({ memory: "loaded" });
  }

  async #entrypointExited({ exitCode, message }: EntrypointExit): Promise<void> {
    if (this.#stopping) return;
    this.#states.set({ exitCode });
    await this.stop(message ?? `the entrypoint exited with code ${exitCode}`);
  }

  #fail(error: unknown): void {
    if (this.#stopping || this.state.phase === "failed") return;
    const { code, message, hint } = this.#environment.exceededLimit() ?? RametError.from(error);
    this.#core.report("cell failed", { code, message });
    this.#states.set({ phase: "failed", ready: false, code, message, ...defined({ hint }) });
  }
}
