import { watch } from "node:fs";
import type { CellState } from "../../api/cell/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import { isProcessRunning, signalProcess } from "../process-identity.ts";
import type { LaunchedPod } from "./launch-pod.ts";
import type { PodDirectory, PodRecord } from "./pod-directory.ts";
import type { NodePod } from "./pod.ts";
import { PodProbes, type ProbeVerdict } from "./probes.ts";

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

/** How a Pod's process ended; the code is not known of one that an earlier run of the node had started. */
export interface PodExit {
  at: Date;
  exitCode?: number;
  signal?: NodeJS.Signals;
}

const adoptedPollMilliseconds = 1_000;

/**
 * The process of one Pod: `ramet-link pod`, in whose namespaces everything else of the Pod is. It has a session of its
 * own and goes on when the node ends; a later run of the node adopts it.
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
  #condemned: string | undefined;
  /** On the monotonic clock. */
  #swapSince: number | undefined;

  private constructor(record: PodRecord, options: PodProcessOptions) {
    this.record = record;
    this.#condemned = record.condemned;
    this.directory = options.directory;
    this.#options = options;
  }

  /** Makes a process that was launched the Pod's, and puts it down in the Pod's directory. */
  static start({ launched, identity, ...options }: StartOptions): PodProcess {
    const { child, process } = launched;
    const startedAt = options.clock.now().toISOString();
    const started = new PodProcess({ ...identity, process, startedAt }, options);
    options.directory.writeRecord(started.record);
    const end = (exit: Omit<PodExit, "at">): void => {
      started.#end(exit);
    };
    if (child.exitCode !== null || child.signalCode !== null) end(exitOf(child.exitCode, child.signalCode));
    else
      child.once("exit", (code, signal) => {
        end(exitOf(code, signal));
      });
    started.#watch();
    return started;
  }

  /** Takes over what an earlier run of the node started, whether it runs still or has ended meanwhile. */
  static adopt(record: PodRecord, options: PodProcessOptions): PodProcess {
    const adopted = new PodProcess(record, options);
    adopted.#watch();
    adopted.#poll();
    return adopted;
  }

  /** The cell's state as it last wrote it; absent until it listens. */
  get state(): CellState | undefined {
    return this.#state;
  }

  /** For how long another sandbox has been taking the place of the one that ran, in milliseconds; absent when none is. */
  get swapMilliseconds(): number | undefined {
    if (this.#swapSince === undefined) return undefined;
    return this.#options.clock.monotonicMilliseconds() - this.#swapSince;
  }

  get exit(): PodExit | undefined {
    return this.#exit;
  }

  /** Why the node has ended the Pod, where a probe failed for good. */
  get condemned(): string | undefined {
    return this.#condemned;
  }

  /** What the Pod's probes say; absent before `probe`. */
  get verdict(): ProbeVerdict | undefined {
    return this.#probes?.verdict;
  }

  /** Begins with the Pod's probes, if that was not done. */
  probe(pod: NodePod): void {
    const [container] = pod.spec.containers;
    if (this.#probes !== undefined || this.#exit !== undefined || container === undefined) return;
    const { clock, onChange } = this.#options;
    const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? 30;
    this.#probes = new PodProbes({
      target: { ip: this.record.ip, container },
      before: pod.status?.containerStatuses?.[0],
      clock,
      onChange,
      onFatal: (message, ownGraceSeconds) => {
        this.#condemned = message;
        this.directory.writeRecord({ ...this.record, condemned: message });
        this.terminate((ownGraceSeconds ?? graceSeconds) * 1000);
      },
    });
    if (this.#state !== undefined) this.#probes.follow(this.#state);
  }

  /** Resolves when the process has ended. */
  get ended(): Promise<undefined> {
    return this.#ended.promise;
  }

  /** Asks the cell to end, and ends it if it has not after that long. Of two wishes the shorter counts. */
  terminate(graceMilliseconds: number): void {
    if (this.#exit !== undefined) return;
    const { process } = this.record;
    if (graceMilliseconds > 0) signalProcess(process, "SIGTERM");
    this.#cancelKill?.();
    this.#cancelKill = this.#options.clock.schedule(graceMilliseconds, () => signalProcess(process, "SIGKILL"));
  }

  #watch(): void {
    const { directory } = this.#options;
    const watcher = watch(directory.stateDirectory, () => {
      this.#read();
    });
    watcher.on("error", () => {
      watcher.close();
    });
    this.#stopWatching = () => {
      watcher.close();
    };
    this.#read();
  }

  #read(): void {
    const state = this.#options.directory.readState();
    if (state === undefined || JSON.stringify(state) === JSON.stringify(this.#state)) return;
    this.#state = state;
    if (state.swapping === undefined) this.#swapSince = undefined;
    else this.#swapSince ??= this.#options.clock.monotonicMilliseconds();
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
    // What the cell wrote last may not have been told yet.
    this.#state = this.#options.directory.readState() ?? this.#state;
    this.#exit = { at: this.#options.clock.now(), ...exit };
    this.#ended.resolve(undefined);
    this.#options.onChange();
  }
}

function exitOf(code: number | null, signal: NodeJS.Signals | null): Omit<PodExit, "at"> {
  return { ...(code !== null && { exitCode: code }), ...(signal !== null && { signal }) };
}
