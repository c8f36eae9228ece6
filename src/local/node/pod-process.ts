import { watch } from "node:fs";
import type { CellState } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { isProcessRunning, signalProcess } from "../../base/process-identity.ts";
import type { LaunchedPod } from "./launch-pod.ts";
import type { PodDirectory, PodRecord } from "./pod-directory.ts";
import type { Container } from "../../api/schema/pod-template.ts";
import { Hooks } from "./hooks.ts";
import { PodProbes, type ProbeVerdict } from "./probes.ts";

/** How to watch over a container. */
export interface Care {
  container: Container;
  /** For a failed probe or hook that has none of its own. */
  graceSeconds: number;
  /** Whether it was restored: what its postStart hook did is part of its state. */
  isClone: boolean;
  /** The last reported status. */
  before: { started?: boolean | undefined; ready?: boolean | undefined } | undefined;
}

export interface PodProcessOptions {
  directory: PodDirectory;
  clock: Clock;
  /** Called when the cell's state has changed and when the process has ended. */
  onChange: () => void;
}

export interface StartOptions extends PodProcessOptions {
  launched: LaunchedPod;
  identity: Pick<PodRecord, "uid" | "namespace" | "name" | "ip" | "spare">;
}

/** How a Pod's process ended. The code is unknown for a process of an earlier run of the node. */
export interface PodExit {
  at: Date;
  exitCode?: number;
  signal?: NodeJS.Signals;
}

const adoptedPollMilliseconds = 1_000;
/** As of a kubelet. */
const minimumGraceMilliseconds = 2_000;

/**
 * The outer process of one Pod, `ramet-link pod`. All other processes of the Pod are in its namespaces. It has its own
 * session and keeps running when the node ends; a later run of the node adopts it.
 */
export class PodProcess {
  readonly record: PodRecord;
  readonly directory: PodDirectory;
  readonly #options: PodProcessOptions;
  #state: CellState | undefined;
  #exit: PodExit | undefined;
  #ended = Promise.withResolvers<undefined>();
  #stopWatching: () => void = () => undefined;
  #cancelKill: (() => void) | undefined;
  #probes: PodProbes | undefined;
  #hooks: Hooks | undefined;
  #isAdopted = false;
  /** When it is killed, on the monotonic clock, if it was asked to end. */
  #deadline: number | undefined;
  #condemned: string | undefined;
  /** On the monotonic clock. */
  #restoringSince: number | undefined;

  private constructor(record: PodRecord, options: PodProcessOptions) {
    this.record = record;
    this.#condemned = record.condemned;
    this.directory = options.directory;
    this.#options = options;
  }

  /** Records a launched process in the Pod's directory and follows it. */
  static start({ launched, identity, ...options }: StartOptions): PodProcess {
    const { child, process } = launched;
    const startedAt = options.clock.now().toISOString();
    const started = new PodProcess({ ...identity, process, startedAt }, options);
    options.directory.writeRecord(started.record);
    if (child.exitCode !== null || child.signalCode !== null) started.#end(exitOf(child.exitCode, child.signalCode));
    else
      child.once("exit", (code, signal) => {
        started.#end(exitOf(code, signal));
      });
    started.#watch();
    return started;
  }

  /** Follows a process of an earlier run of the node, which may have ended meanwhile. */
  static adopt(record: PodRecord, options: PodProcessOptions): PodProcess {
    const adopted = new PodProcess(record, options);
    adopted.#isAdopted = true;
    adopted.#watch();
    adopted.#poll();
    return adopted;
  }

  /** The cell's last written state. Absent until it listens. */
  get state(): CellState | undefined {
    return this.#state;
  }

  /** How long a restore in place has been running, in milliseconds. Absent if none is. */
  get restoringInPlaceMilliseconds(): number | undefined {
    if (this.#restoringSince === undefined) return undefined;
    return this.#options.clock.monotonicMilliseconds() - this.#restoringSince;
  }

  get exit(): PodExit | undefined {
    return this.#exit;
  }

  /** The failed startup or liveness probe because of which the node has stopped the Pod. */
  get condemned(): string | undefined {
    return this.#condemned;
  }

  /** The result of the Pod's probes. Absent before `probe`. */
  get verdict(): ProbeVerdict | undefined {
    return this.#probes?.verdict;
  }

  /** Whether the postStart hook still runs: until it has ended, a kubelet does not report the container as running. */
  get isStarting(): boolean {
    return this.#hooks?.isStarting === true;
  }

  /** Starts the container's probes and its postStart hook, unless they run already. */
  careFor({ container, graceSeconds, isClone, before }: Care): void {
    if (this.#probes !== undefined || this.#exit !== undefined) return;
    const { clock, onChange, directory } = this.#options;
    const target = { ip: this.record.ip, container, cellDirectory: directory.cell, clock };
    const onFatal = (message: string, ownGraceSeconds?: number): void => {
      this.#condemned = message;
      directory.writeRecord({ ...this.record, condemned: message });
      this.terminate((ownGraceSeconds ?? graceSeconds) * 1000, "SIGINT");
    };
    this.#hooks = new Hooks({ target, onChange, onFatal });
    // After a restart of the node it is unknown whether the hook has run, and a kubelet does not run it twice.
    if (!this.#isAdopted && !isClone) this.#hooks.start();
    this.#probes = new PodProbes({ target, before, clock, onChange, onFatal });
    if (this.#state !== undefined) this.#probes.follow(this.#state);
  }

  /** Resolves when the process has ended. */
  get ended(): Promise<undefined> {
    return this.#ended.promise;
  }

  /**
   * Runs the preStop hook, sends SIGTERM to the cell, and SIGKILL after the grace period. A later call can only shorten the
   * grace period.
   * @param signal SIGINT: the Pod is not deleted, so no controller captures its sandbox, and the cell must not wait for that
   */
  terminate(graceMilliseconds: number, signal: "SIGTERM" | "SIGINT" = "SIGTERM"): void {
    if (this.#exit !== undefined) return;
    const { clock } = this.#options;
    const deadline = clock.monotonicMilliseconds() + graceMilliseconds;
    const before = this.#deadline;
    if (before !== undefined && before <= deadline) return;
    this.#deadline = deadline;
    this.#killAfter(graceMilliseconds);
    if (before === undefined && graceMilliseconds > 0) void this.#askToEnd(graceMilliseconds, signal);
  }

  async #askToEnd(graceMilliseconds: number, signal: "SIGTERM" | "SIGINT"): Promise<void> {
    const { clock } = this.#options;
    this.#probes?.stop();
    if (this.#hooks?.hasPreStop === true && this.#state?.phase === "running") {
      // The hook has the grace period, and the container has at least two seconds after it, as with a kubelet.
      this.#killAfter(graceMilliseconds + minimumGraceMilliseconds);
      await this.#hooks.preStop(graceMilliseconds);
      const left = (this.#deadline ?? 0) - clock.monotonicMilliseconds();
      this.#killAfter(Math.max(minimumGraceMilliseconds, left));
    }
    if (this.#exit === undefined) signalProcess(this.record.process, signal);
  }

  #killAfter(milliseconds: number): void {
    this.#cancelKill?.();
    if (this.#exit !== undefined) return;
    const { clock } = this.#options;
    this.#cancelKill = clock.schedule(milliseconds, () => signalProcess(this.record.process, "SIGKILL"));
  }

  #watch(): void {
    const watcher = watch(this.directory.stateDirectory, () => {
      this.#read();
    });
    this.#stopWatching = () => {
      watcher.close();
    };
    watcher.on("error", this.#stopWatching);
    this.#read();
  }

  #read(): void {
    const state = this.#options.directory.readState();
    if (state === undefined || JSON.stringify(state) === JSON.stringify(this.#state)) return;
    this.#state = state;
    if (state.swapping === undefined) this.#restoringSince = undefined;
    else this.#restoringSince ??= this.#options.clock.monotonicMilliseconds();
    this.#probes?.follow(state);
    this.#options.onChange();
  }

  #poll(): void {
    if (!isProcessRunning(this.record.process)) {
      this.#end({});
      return;
    }
    this.#options.clock.schedule(adoptedPollMilliseconds, () => {
      this.#poll();
    });
  }

  #end(exit: Omit<PodExit, "at">): void {
    if (this.#exit !== undefined) return;
    this.#cancelKill?.();
    this.#stopWatching();
    this.#probes?.stop();
    this.#hooks?.stop();
    // The watch may not have reported the cell's last write.
    this.#state = this.#options.directory.readState() ?? this.#state;
    this.#exit = { at: this.#options.clock.now(), ...exit };
    this.#ended.resolve(undefined);
    this.#options.onChange();
  }
}

function exitOf(code: number | null, signal: NodeJS.Signals | null): Omit<PodExit, "at"> {
  return { ...(code !== null && { exitCode: code }), ...(signal !== null && { signal }) };
}
