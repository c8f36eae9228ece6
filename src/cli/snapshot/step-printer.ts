import * as z from "zod";
import type { SnapshotStep } from "../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { builderName, logKey, logName, stepTag } from "../../controllers/named-snapshot/names.ts";
import type { GuestClient } from "../../cell/client/guest-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { AccessFlags } from "../cluster/gateway-credentials.ts";
import { withGuest } from "../cluster/guest-access.ts";
import { type Io, isBrokenPipe, printLine, writeAll } from "../io.ts";

export interface StepPrinterOptions {
  io: Io;
  cluster: Cluster;
  /** Prints only this step, counted from 1. */
  step: number | undefined;
  /** How to enter the sandbox of the build. */
  access: AccessFlags;
  signal: AbortSignal;
}

/** Prints the output of each step of a build once and in order, driven by the states of its named snapshot. */
export class StepPrinter {
  readonly #options: StepPrinterOptions;
  readonly #printed = new Set<string>();
  #latest: NamedSnapshot | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(options: StepPrinterOptions) {
    this.#options = options;
  }

  /** Processes the next state. Resolves when its output is printed. @throws the error of the output stream, or `Canceled` */
  see(snapshot: NamedSnapshot): Promise<void> {
    this.#latest = snapshot;
    this.#work = this.#work.then(() => this.#print(snapshot));
    return this.#work;
  }

  flush(): Promise<void> {
    return this.#work;
  }

  async #print(snapshot: NamedSnapshot): Promise<void> {
    for (const [index, step] of (snapshot.status?.steps ?? []).entries()) {
      const id = idOf(snapshot, index);
      const isAsked = this.#options.step === undefined || this.#options.step === index + 1;
      if (!isAsked || step.cached || this.#printed.has(id)) continue;
      if (await this.#printStep(snapshot, index, step)) this.#printed.add(id);
    }
  }

  /** Returns whether all output of the step is printed. */
  async #printStep(snapshot: NamedSnapshot, index: number, step: SnapshotStep): Promise<boolean> {
    if (step.state === "Succeeded" || step.state === "Failed") {
      await this.#printKept(snapshot, index);
      return true;
    }
    if (step.state !== "Running" || snapshot.spec.recipe[index]?.run === undefined) return false;
    const { io, cluster, access, signal } = this.#options;
    return printWhileRunning(io, cluster, {
      snapshot,
      access,
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

/** Identifies a step of one attempt of one build: another attempt runs the step again. */
function idOf({ status }: NamedSnapshot, index: number): string {
  return `${status?.build?.digest ?? ""}/${status?.build?.startedAt ?? ""}/${status?.build?.attempt ?? 0}/${index}`;
}

interface RunningStep {
  snapshot: NamedSnapshot;
  index: number;
  /** The index of the step. */
  digest: string;
  access: AccessFlags;
  /** Called before the first output. */
  begin: () => void;
  /** Whether the step has ended, in the latest known state. */
  isRunning: () => boolean;
  signal: AbortSignal;
}

/**
 * Streams the output of a `run` step from its builder's guest until the step ends. Returns whether that was all of it: without
 * permission to enter sandboxes, or if the connection breaks, the output is printed when the step has ended.
 */
async function printWhileRunning(io: Io, cluster: Cluster, step: RunningStep): Promise<boolean> {
  try {
    return await follow(io, cluster, step);
  } catch (thrown) {
    if (step.signal.aborted || isBrokenPipe(thrown)) throw thrown;
    const { message } = RametError.from(thrown);
    if (step.isRunning()) {
      printLine(io.stderr, `The output of step ${step.index + 1} is printed when it has ended: ${message}`);
    }
    return false;
  }
}

async function follow(io: Io, cluster: Cluster, step: RunningStep): Promise<boolean> {
  const { snapshot, signal } = step;
  const build = snapshot.status?.build;
  if (build === undefined) return false;
  const sandbox = builderName(snapshot.metadata.name, build);
  return withGuest(io, cluster, { sandbox, flags: step.access, signal }, async (guest) => {
    while (step.isRunning()) {
      try {
        return await printAll(io, guest.connect({ tag: stepTag(step.index, step.digest) }, signal), step);
      } catch (error) {
        // The status reports the step as running before it starts.
        if (RametError.from(error).code !== "NotFound") throw error;
        await delay(io.clock, pauseMilliseconds, signal);
      }
    }
    return false;
  });
}

type Events = ReturnType<GuestClient["connect"]>;

async function printAll(io: Io, events: Events, { begin }: RunningStep): Promise<boolean> {
  let hasBegun = false;
  for await (const event of events) {
    if (event.type === "end") return event.missedBytes === 0;
    if (event.type !== "data") continue;
    if (!hasBegun) begin();
    hasBegun = true;
    await writeAll(io.stdout, event.data);
  }
  return false;
}

const pauseMilliseconds = 100;

/** The duration of a build or a step, such as `0.3s`; empty if it is unknown. */
export function seconds(milliseconds: number | undefined): string {
  return milliseconds === undefined ? "" : `${(milliseconds / 1000).toFixed(1)}s`;
}

/** The output of a build's completed steps, by `logKey`; only the end of long output. */
export async function keptLogs(
  cluster: Cluster,
  { snapshot, digest }: { snapshot: string; digest: string },
  signal: AbortSignal,
): Promise<Record<string, string>> {
  const resource = cluster.client.resource(coreResources.configMaps, (value) => Logs.parse(value));
  const at = { namespace: cluster.namespace, name: logName(snapshot, digest) };
  return (await resource.find(at, { signal }))?.data ?? {};
}

const Logs = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });
