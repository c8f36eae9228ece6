import { setTimeout as sleep } from "node:timers/promises";
import { acquireEverything } from "../../setup/tools.ts";
import { setup as buildPackage } from "../../setup/built-package.ts";
import { podFamily } from "../../bench/pod-family.ts";
import { firstEntry } from "./ledger.ts";
import { inject } from "./injectors.ts";
import { perform, type Lane, type Outcome } from "./operations.ts";
import type { LongOptions } from "./options.ts";
import { emptyIsWrong, outcomeIsWrong, sourceIsWrong, storeIsWrong } from "./oracle.ts";
import { batchOfFault, planFaults, severityOf, type Batch, type Fault } from "./plan.ts";
import { Report } from "./report.ts";
import { LongWorld } from "./world.ts";

/** Injects the planned faults, and prints the report. @returns the number of broken promises */
export async function runLong(options: LongOptions, signal: AbortSignal): Promise<number> {
  buildPackage();
  await acquireEverything();
  const { seed, only, batchesPerLife } = options;
  const planned = planFaults(options);
  const one = only === undefined ? undefined : batchOfFault(planned, only);
  if (only !== undefined && one === undefined) throw new Error(`the plan has no fault ${only}`);
  const batches = one === undefined ? planned : [one];
  console.error(`faults: seed ${seed}, ${batches.length} batches (--seed ${seed} repeats the plan)`);
  const report = new Report(seed);
  const world = await LongWorld.open();
  try {
    const run = new Run(world, report);
    await run.warmUp();
    for (const [at, batch] of batches.entries()) {
      if (signal.aborted) break;
      await run.batch(batch);
      if ((at + 1) % batchesPerLife === 0 || at === batches.length - 1) await run.empty(batch);
      console.error(`faults: ${report.injected} injected, ${report.broken.length} promises broken`);
    }
  } finally {
    await world.close();
  }
  console.log(options.json ? JSON.stringify(report.toJson(), undefined, 2) : report.toText());
  return report.broken.length;
}

/** The batches in one cluster, one after another. */
class Run {
  readonly #world: LongWorld;
  readonly #report: Report;
  #lanes: (Lane | undefined)[] = [];
  #count = 0;

  constructor(world: LongWorld, report: Report) {
    this.#world = world;
    this.#report = report;
  }

  /** The first sandbox and checkpoint leave what an idle cluster keeps, such as spare cells. */
  async warmUp(): Promise<void> {
    await this.#newLane();
    await this.#world.removeAll();
    await sleep(3_000);
    await this.#world.settle();
  }

  async batch(batch: Batch): Promise<void> {
    const { operations } = batch;
    this.#lanes = await Promise.all(operations.map(async (_, at) => this.#lanes[at] ?? (await this.#newLane())));
    const laneFaults = operations.map((_, at) => batch.faults.filter(({ lane }) => lane === at));
    const outcomes = await Promise.allSettled(operations.map((_, at) => this.#operation(batch, at, laneFaults[at]!)));
    await this.#attempt(batch, undefined, async () => {
      await this.#world.untilHealthy();
      return [];
    });
    await Promise.all(operations.map((_, at) => this.#check(batch, at, outcomes[at]!)));
    await this.#attempt(batch, undefined, () => this.#discard());
    await this.#attempt(batch, undefined, () => storeIsWrong(this.#world));
  }

  /** Checks the operation and the sandbox of a lane. */
  async #check(batch: Batch, at: number, outcome: PromiseSettledResult<Outcome>): Promise<void> {
    const operation = batch.operations[at]!;
    const lane = this.#lanes[at]!;
    const severity = severityOf(batch, at);
    await this.#attempt(batch, at, async () => {
      const { lost, wrong } = await sourceIsWrong(this.#world, lane, severity);
      if (lost) this.#lanes[at] = undefined;
      return wrong;
    });
    await this.#attempt(batch, at, async () => {
      if (outcome.status === "rejected") throw outcome.reason;
      const { succeeded, message } = outcome.value;
      this.#report.outcome(operation, outcome.value);
      const result = succeeded ? "succeeded" : `failed: ${message}`;
      console.error(`faults: batch ${batch.number} ${operation} (${severity}): ${result}`);
      return [...outcomeIsWrong(operation, severity, outcome.value), ...(await outcome.value.verify(severity))];
    });
  }

  /** Deletes everything, and counts what is left. */
  async empty(batch: Batch): Promise<void> {
    this.#lanes = [];
    await this.#attempt(batch, undefined, () => emptyIsWrong(this.#world));
  }

  /** Performs the operation of a lane, and injects the faults that follow its progress. */
  async #operation(batch: Batch, at: number, faults: readonly Fault[]): Promise<Outcome> {
    const requested = Promise.withResolvers<() => Promise<string>>();
    const ended = Promise.withResolvers<undefined>();
    const lane = this.#lanes[at]!;
    const progress = { requested: requested.promise, ended: ended.promise };
    const injected = faults.map((fault) => this.#fault(batch, fault, progress));
    try {
      return await perform(batch.operations[at]!, {
        world: this.#world,
        lane,
        name: `b${batch.number}-l${at}-${++this.#count}`,
        onRequested: requested.resolve,
      });
    } finally {
      requested.resolve(() => Promise.resolve(""));
      ended.resolve(undefined);
      await Promise.all(injected);
    }
  }

  async #fault(
    batch: Batch,
    fault: Fault,
    { requested, ended }: { requested: Promise<() => Promise<string>>; ended: Promise<undefined> },
  ): Promise<void> {
    const checkpointId = this.#lanes[fault.lane]?.base.status?.checkpointId ?? "";
    const victim = await requested;
    if (fault.step === "engine") await Promise.race([this.#engineRuns(victim, ended), ended]);
    if (fault.step === "end") await ended;
    await sleep(fault.delayMilliseconds);
    let hit: string | undefined;
    await this.#attempt(batch, undefined, async () => {
      hit = await inject(fault, this.#world, { sandboxName: await victim(), checkpointId });
      return [];
    });
    this.#report.fault(fault, hit);
    const { index, kind, step, delayMilliseconds, lastsMilliseconds } = fault;
    const lasts = lastsMilliseconds === 0 ? "" : ` for ${lastsMilliseconds} ms`;
    console.error(
      `faults: ${index} ${kind} at ${step} + ${delayMilliseconds} ms${lasts}: ${hit ?? "nothing to hit at that instant"}`,
    );
  }

  /** Resolves when gVisor captures or restores the sandbox, or when the operation has ended. */
  async #engineRuns(victim: () => Promise<string>, ended: Promise<undefined>): Promise<void> {
    const over = new AbortController();
    void ended.then(() => {
      over.abort();
    });
    while (!over.signal.aborted) {
      const family = await podFamily(this.#world.local, await victim());
      if (family.some(({ commandLine }) => / (checkpoint|restore) /.test(commandLine))) return;
      await sleep(5);
    }
  }

  async #newLane(): Promise<Lane> {
    const name = `source-${++this.#count}`;
    const world = this.#world;
    const source = await world.untilReady(await world.requestSandbox(name));
    const baseEntry = await firstEntry(source.status?.sandboxIp ?? "");
    const base = await world.untilFinished(await world.requestCheckpoint(`${name}-base`, name));
    if (base.status?.phase !== "Succeeded") throw new Error(`without a fault: ${base.status?.message ?? ""}`);
    return { source, last: baseEntry, base, baseEntry };
  }

  /** Deletes all sandboxes and checkpoints that no lane needs. */
  async #discard(): Promise<string[]> {
    const lanes = this.#lanes.filter((lane) => lane !== undefined);
    await this.#world.removeAll(lanes.flatMap(({ source, base }) => [source.metadata.uid, base.metadata.uid]));
    return [];
  }

  /** Records what a check finds. A check that throws has found that. */
  async #attempt(batch: Batch, at: number | undefined, check: () => Promise<string[]>): Promise<void> {
    const wrong = await check().catch((error: unknown) => [String(error)]);
    const operation = at === undefined ? undefined : batch.operations[at];
    for (const what of wrong) {
      const faults = batch.faults.map(({ index }) => index);
      this.#report.broken.push({ batch: batch.number, faults, ...(operation && { operation }), what });
      console.error(`faults: BROKEN in batch ${batch.number} ${operation ?? ""}: ${what}`);
    }
  }
}
