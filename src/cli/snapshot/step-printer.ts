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

interface StepPrinterOptions {
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
    const { step: asked } = this.#options;
    for (const [index, step] of (snapshot.status?.steps ?? []).entries()) {
      const id = idOf(snapshot, index);
      if ((asked !== undefined && asked !== index + 1) || step.cached || this.#printed.has(id)) continue;
      if (step.state === "Succeeded" || step.state === "Failed") await this.#printKept(snapshot, index);
      else if (step.state !== "Running" || !(await this.#printRunning(snapshot, index, step))) continue;
      this.#printed.add(id);
    }
  }

  async #printKept({ metadata, status }: NamedSnapshot, index: number): Promise<void> {
    const { io, cluster, signal } = this.#options;
    const logs = await keptLogs(cluster, { snapshot: metadata.name, digest: status?.build?.digest ?? "" }, signal);
    const log = logs[logKey(index)];
    if (log === undefined) return;
    this.#printHeading(index);
    await writeAll(io.stdout, log);
  }

  #printHeading(index: number): void {
    if (this.#options.step === undefined) printLine(this.#options.io.stderr, `--- step ${index + 1}`);
  }

  /**
   * Streams the output of a `run` step from its builder's guest until the step ends. Returns whether that was all of it: without
   * permission to enter sandboxes, or if the connection breaks, the output is printed when the step has ended.
   */
  async #printRunning(snapshot: NamedSnapshot, index: number, { digest }: SnapshotStep): Promise<boolean> {
    const build = snapshot.status?.build;
    if (build === undefined || snapshot.spec.recipe[index]?.run === undefined) return false;
    const { io, cluster, access: flags, signal } = this.#options;
    const isRunning = (): boolean => this.#isRunning(idOf(snapshot, index), index);
    const sandbox = builderName(snapshot.metadata.name, build);
    try {
      return await withGuest(io, cluster, { sandbox, flags, signal }, async (guest) => {
        while (isRunning()) {
          try {
            return await this.#printEvents(guest.connect({ tag: stepTag(index, digest) }, signal), index);
          } catch (error) {
            // The status reports the step as running before it starts.
            if (RametError.from(error).code !== "NotFound") throw error;
            await delay(io.clock, pauseMilliseconds, signal);
          }
        }
        return false;
      });
    } catch (thrown) {
      if (signal.aborted || isBrokenPipe(thrown)) throw thrown;
      const { message } = RametError.from(thrown);
      if (isRunning()) printLine(io.stderr, `The output of step ${index + 1} is printed when it has ended: ${message}`);
      return false;
    }
  }

  /** Whether the step has not ended, in the latest known state. */
  #isRunning(id: string, index: number): boolean {
    const latest = this.#latest;
    return latest !== undefined && idOf(latest, index) === id && latest.status?.steps?.[index]?.state === "Running";
  }

  async #printEvents(events: ReturnType<GuestClient["connect"]>, index: number): Promise<boolean> {
    let hasBegun = false;
    for await (const event of events) {
      if (event.type === "end") return event.missedBytes === 0;
      if (event.type !== "data") continue;
      if (!hasBegun) this.#printHeading(index);
      hasBegun = true;
      await writeAll(this.#options.io.stdout, event.data);
    }
    return false;
  }
}

const pauseMilliseconds = 100;

/** Identifies a step of one attempt of one build: another attempt runs the step again. */
function idOf({ status }: NamedSnapshot, index: number): string {
  return `${status?.build?.digest ?? ""}/${status?.build?.startedAt ?? ""}/${status?.build?.attempt ?? 0}/${index}`;
}

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
