import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SnapshotStep } from "../../api/kinds/named-snapshot-status.ts";
import { logKey } from "../../controllers/named-snapshot/log-name.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { printLine, writeAll, type Io } from "../io.ts";
import { keptLogs } from "./kept-logs.ts";
import { printWhileRunning } from "./print-while-running.ts";

export interface StepTellerOptions {
  io: Io;
  cluster: Cluster;
  /** Only this one, counted from 1. */
  step: number | undefined;
  signal: AbortSignal;
}

/** Prints what each step of a build prints, each step once and in order, out of the states of its named snapshot. */
export class StepTeller {
  readonly #options: StepTellerOptions;
  readonly #told = new Set<string>();
  #latest: NamedSnapshot | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(options: StepTellerOptions) {
    this.#options = options;
  }

  /** The next state. Settles when what it has to tell is printed; fails with the output, and when it is interrupted. */
  see(snapshot: NamedSnapshot): Promise<void> {
    this.#latest = snapshot;
    this.#work = this.#work.then(() => this.#tell(snapshot));
    return this.#work;
  }

  toldAll(): Promise<void> {
    return this.#work;
  }

  async #tell(snapshot: NamedSnapshot): Promise<void> {
    for (const [index, step] of (snapshot.status?.steps ?? []).entries()) {
      const id = idOf(snapshot, index);
      const isAsked = this.#options.step === undefined || this.#options.step === index + 1;
      if (!isAsked || step.cached || this.#told.has(id)) continue;
      if (await this.#tellStep(snapshot, index, step)) this.#told.add(id);
    }
  }

  /** Answers whether there is nothing more to tell of it. */
  async #tellStep(snapshot: NamedSnapshot, index: number, step: SnapshotStep): Promise<boolean> {
    if (step.state === "Succeeded" || step.state === "Failed") {
      await this.#printKept(snapshot, index);
      return true;
    }
    if (step.state !== "Running" || snapshot.spec.recipe[index]?.run === undefined) return false;
    const { io, cluster, signal } = this.#options;
    return printWhileRunning(io, cluster, {
      snapshot,
      index,
      digest: step.digest,
      begin: () => {
        this.#printHeading(index);
      },
      isRunning: () => this.#isRunning(idOf(snapshot, index), index),
      signal,
    });
  }

  async #printKept(snapshot: NamedSnapshot, index: number): Promise<void> {
    const { io, cluster, signal } = this.#options;
    const digest = snapshot.status?.build?.digest ?? "";
    const log = (await keptLogs(cluster, { snapshot: snapshot.metadata.name, digest }, signal))[logKey(index)];
    if (log === undefined) return;
    this.#printHeading(index);
    await writeAll(io.stdout, log);
  }

  #printHeading(index: number): void {
    if (this.#options.step === undefined) printLine(this.#options.io.stderr, `--- step ${index + 1}`);
  }

  #isRunning(id: string, index: number): boolean {
    const latest = this.#latest;
    return latest !== undefined && idOf(latest, index) === id && latest.status?.steps?.[index]?.state === "Running";
  }
}

/** A step of one attempt of one build: another attempt runs it again. */
function idOf({ status }: NamedSnapshot, index: number): string {
  return `${status?.build?.digest ?? ""}/${status?.build?.startedAt ?? ""}/${status?.build?.attempt ?? 0}/${index}`;
}
