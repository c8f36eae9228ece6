import { renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { Container } from "../../api/schema/pod-template.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { readJsonSync, replaceFileSync } from "../files.ts";
import { observe } from "./observe.ts";
import { PodDirectory } from "./pod-directory.ts";
import { PodProcess } from "./pod-process.ts";
import { seconds, terminated, type ContainerStatus } from "./pod-status.ts";
import { waitingFor } from "./pod.ts";
import { startSideContainer, type SideStart } from "./start-side-container.ts";

/** `init` runs to its end before the next one starts, `sidecar` is restarted, `ordinary` runs beside the sandbox. */
export type SideKind = "init" | "sidecar" | "ordinary";

const Terminated = z.object({
  exitCode: z.number().int(),
  reason: z.string(),
  message: z.string().optional(),
  startedAt: z.string().optional(),
  finishedAt: z.string(),
});
type Terminated = z.infer<typeof Terminated>;

/** The record of the container that the node needs after its own restart. */
const Record = z.object({ restartCount: z.number().int(), last: Terminated.optional() });

const retryMilliseconds = 2_000;

/** A container of a Pod beside the sandbox's: it runs in a cell of its own. */
export class SideContainer {
  readonly kind: SideKind;
  readonly directory: PodDirectory;
  readonly #options: SideStart;
  readonly #delay: ReturnType<typeof restartDelays>;
  #process: PodProcess | undefined;
  #record: z.infer<typeof Record>;
  #problem: { reason: string; message: string } | undefined;
  #isLaunching = false;
  #cancelRetry: (() => void) | undefined;
  #isStopped = false;

  constructor(kind: SideKind, options: SideStart) {
    this.kind = kind;
    this.#options = options;
    this.directory = new PodDirectory(join(options.directory.path, "containers"), options.container.name);
    this.#delay = restartDelays(options.clock);
    this.#record = readJsonSync(Record, this.#recordPath) ?? { restartCount: 0 };
    this.#adopt();
  }

  get container(): Container {
    return this.#options.container;
  }

  /** Where the log of the last run is, after a restart. */
  get previousLog(): string {
    return `${this.directory.path}.previous.log`;
  }

  /** Whether an init container has succeeded, and what follows a sidecar may start. */
  get isInitialized(): boolean {
    if (this.kind === "init") return this.#record.last?.exitCode === 0;
    return this.isStarted;
  }

  /** Whether it has ended and is not restarted. */
  get hasEnded(): boolean {
    return this.kind !== "sidecar" && this.#record.last !== undefined;
  }

  /** Why an init container has failed for good. */
  get failure(): string | undefined {
    const { last } = this.#record;
    if (this.kind !== "init" || last === undefined || last.exitCode === 0) return undefined;
    const { name } = this.container;
    return `The init container ${name} failed with exit code ${last.exitCode}${last.message === undefined ? "" : `: ${last.message}`}`;
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  /** Whether a process of it runs or is being started. */
  get isActive(): boolean {
    return this.isRunning || this.#isLaunching;
  }

  get isStarted(): boolean {
    return this.#runs && this.#process?.verdict?.started !== false;
  }

  get isReady(): boolean {
    if (this.kind === "init") return this.isInitialized;
    return this.#runs && this.#process?.verdict?.ready !== false;
  }

  /** Why it is not ready. */
  get problem(): string | undefined {
    const verdict = this.#runs ? this.#process?.verdict?.message : undefined;
    return verdict ?? this.#problem?.message;
  }

  /** Starts it unless it runs, has ended, or waits for its restart. */
  start(): void {
    if (this.#isStopped || this.isRunning || this.#isLaunching || this.hasEnded || this.#cancelRetry !== undefined) {
      this.#care();
      return;
    }
    this.#isLaunching = true;
    void this.#launch().finally(() => {
      this.#isLaunching = false;
      this.#options.onChange();
    });
  }

  /** Follows a process of an earlier run of the node. */
  #adopt(): void {
    const record = this.directory.readRecord();
    if (record === undefined) return;
    const { clock } = this.#options;
    this.#process = PodProcess.adopt(record, { directory: this.directory, clock, onChange: this.#changed });
    // It may have ended while no node ran.
    if (this.#process.exit !== undefined) queueMicrotask(this.#changed);
  }

  /** Asks it to end, and does not restart it. */
  stop(graceMilliseconds: number): void {
    this.#isStopped = true;
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    this.#process?.terminate(graceMilliseconds);
  }

  /** Resolves when no process of it is left. */
  async untilEnded(): Promise<void> {
    await this.#process?.ended;
  }

  status(isInitializing: boolean): ContainerStatus {
    const { name, image } = this.container;
    const { restartCount, last } = this.#record;
    const isOver = this.hasEnded || (this.#isStopped && !this.isRunning);
    return {
      name,
      image,
      imageID: "",
      ready: this.isReady,
      ...(this.kind !== "init" && { started: this.isStarted }),
      restartCount,
      lastState: last === undefined || isOver ? {} : { terminated: last },
      state: this.#state(isOver ? last : undefined, isInitializing),
    };
  }

  #state(ended: Terminated | undefined, isInitializing: boolean): ContainerStatus["state"] {
    if (ended !== undefined) return { terminated: ended };
    const process = this.#process;
    if (this.#runs && process !== undefined)
      return { running: { startedAt: seconds(new Date(process.record.startedAt)) } };
    const reason = isInitializing ? "PodInitializing" : "ContainerCreating";
    return { waiting: this.#problem ?? { reason } };
  }

  get #runs(): boolean {
    const process = this.#process;
    return process?.state?.phase === "running" && process.exit === undefined && !process.isStarting;
  }

  async #launch(): Promise<void> {
    const { pod, clock } = this.#options;
    try {
      if (this.#record.last !== undefined) await this.#clear();
      const launched = await startSideContainer(this.#options, this.directory);
      const { uid, namespace, name } = pod.metadata;
      this.#process = PodProcess.start({
        directory: this.directory,
        clock,
        onChange: this.#changed,
        launched: launched.launched,
        identity: { uid, namespace, name, ip: this.#options.ip },
      });
      launched.give();
      this.#problem = undefined;
      if (this.#isStopped) this.#process.terminate(0);
      this.#care();
    } catch (error) {
      await this.directory.remove().catch(() => undefined);
      this.#problem = waitingFor(RametError.from(error), this.container.imagePullPolicy);
      this.#retryAfter(retryMilliseconds);
    }
  }

  /** Removes what the last run left, but its log. */
  async #clear(): Promise<void> {
    try {
      renameSync(this.directory.entrypointLog, this.previousLog);
    } catch {
      rmSync(this.previousLog, { force: true });
    }
    await this.directory.remove();
  }

  #care(): void {
    const { pod, container } = this.#options;
    const process = this.#process;
    if (process?.state?.phase !== "running" || process.exit !== undefined) return;
    const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? 30;
    process.careFor({ container, graceSeconds, isClone: false, before: undefined });
  }

  readonly #changed = (): void => {
    this.#care();
    if (this.#process?.exit !== undefined) this.#ended(this.#process);
    this.#options.onChange();
  };

  #ended(process: PodProcess): void {
    const seen = observe(process);
    this.#process = undefined;
    if (seen?.kind !== "ended") return;
    // An init container whose end nobody has seen runs again, as it may with a kubelet.
    if (this.kind === "init" && !isKnownEnd(process)) {
      this.#retryAfter(0);
      return;
    }
    const isRestarted = this.kind === "sidecar" && !this.#isStopped;
    const restartCount = this.#record.restartCount + (isRestarted ? 1 : 0);
    const reason = seen.exitCode === 0 ? "Completed" : seen.reason;
    this.#write({ restartCount, last: { ...terminated(seen), reason } });
    this.directory.removeRecord();
    if (isRestarted) this.#restart(process);
  }

  #restart({ exit, record }: PodProcess): void {
    const ranMilliseconds = exit === undefined ? 0 : exit.at.getTime() - Date.parse(record.startedAt);
    const delayMilliseconds = this.#delay(ranMilliseconds);
    if (delayMilliseconds > 0) {
      const { name, namespace, uid } = this.#options.pod.metadata;
      const what = `restarting failed container=${this.container.name} pod=${name}_${namespace}(${uid})`;
      this.#problem = { reason: "CrashLoopBackOff", message: `back-off ${delayMilliseconds / 1000}s ${what}` };
    }
    this.#retryAfter(delayMilliseconds);
  }

  #retryAfter(milliseconds: number): void {
    if (this.#isStopped) return;
    this.#cancelRetry = this.#options.clock.schedule(milliseconds, () => {
      this.#cancelRetry = undefined;
      this.#options.onChange();
    });
  }

  #write(record: z.infer<typeof Record>): void {
    this.#record = record;
    replaceFileSync(this.#recordPath, JSON.stringify(record));
  }

  get #recordPath(): string {
    return `${this.directory.path}.json`;
  }
}

function isKnownEnd({ exit, state }: PodProcess): boolean {
  return exit?.exitCode !== undefined || exit?.signal !== undefined || state?.phase === "stopped";
}

const firstMilliseconds = 10_000;
const maxMilliseconds = 300_000;
/** After a run of this length the delays start again. */
const resetMilliseconds = 2 * maxMilliseconds;

/**
 * The delays of a kubelet before it restarts a container: none, then 10 s, doubled to 5 min.
 * @returns returns the delay after a run of `ranMilliseconds`
 */
export function restartDelays(clock: Clock): (ranMilliseconds: number) => number {
  let next = 0;
  let lastAt = -Infinity;
  return (ranMilliseconds) => {
    const now = clock.monotonicMilliseconds();
    const delay = Math.max(now - lastAt, ranMilliseconds) > resetMilliseconds ? 0 : next;
    lastAt = now;
    next = delay === 0 ? firstMilliseconds : Math.min(maxMilliseconds, delay * 2);
    return delay;
  };
}
