import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { openBareRunsc, type BareRunscOptions } from "./bare-runsc.ts";
import { BareTurns } from "./bare-turns.ts";
import { controllerCounters } from "./controller-metrics.ts";
import { newFigure, phases, reportTurns, stopwatch, type Figure, type LevelContext, type Measures } from "./figure.ts";
import type { LocalCluster, SandboxRequest } from "./local-cluster.ts";
import { PodTimeline } from "./pod-timeline.ts";
import { WarmSet } from "./warm-set.ts";
import { firstAnswer } from "./workload.ts";
import { spentBetween } from "./writes.ts";

/** Figures of the whole path: from the user's write in the Kubernetes API until the sandbox responds to the user. */
export async function clusterLevel(context: LevelContext, cluster: LocalCluster): Promise<void> {
  const level = await ClusterLevel.open(context, cluster);
  const { only, sizesMiB } = context.options;
  if (only.has("sandbox")) await level.sandbox();
  for (const sizeMiB of sizesMiB) {
    if (only.has("checkpoint")) await level.checkpoint(sizeMiB);
    if (only.has("clone")) await level.clone(sizeMiB);
    if (only.has("warm")) await level.warm(sizeMiB);
  }
  await level.close();
}

/** Time in which a reconcile receives the watch event of its own last write. */
const echoMilliseconds = 50;

class ClusterLevel {
  readonly #context: LevelContext;
  readonly #cluster: LocalCluster;
  readonly #bare: BareTurns;
  readonly #timeline: PodTimeline;
  #number = 0;

  private constructor(context: LevelContext, cluster: LocalCluster, bare: BareRunscOptions) {
    this.#context = context;
    this.#cluster = cluster;
    this.#bare = new BareTurns(context, bare);
    this.#timeline = new PodTimeline(cluster.cluster.client);
  }

  static async open(context: LevelContext, cluster: LocalCluster): Promise<ClusterLevel> {
    const bare = await openBareRunsc(context.rootPath, context.cleanUp);
    return new ClusterLevel(context, cluster, bare);
  }

  get #controllerPid(): number {
    return this.#cluster.part("controller") ?? 0;
  }

  close(): Promise<void> {
    return this.#timeline.close();
  }

  async sandbox(): Promise<void> {
    const figure = this.#figure("sandbox", 0, {
      ratios: [
        { ramet: "ready", bare: "create+start", limit: 2 },
        { ramet: "answers", bare: "answers" },
      ],
      goals: { ready: 300 },
    });
    await reportTurns(this.#context, figure, {
      ramet: async (turn, measured) => {
        const [sandbox, measures] = await measured(() => this.#create({ name: `new-${turn}` }));
        await this.#cluster.remove(this.#cluster.cluster.sandboxes, sandbox);
        return measures;
      },
      bare: this.#bare.birth,
    });
  }

  async checkpoint(sizeMiB: number): Promise<void> {
    const figure = this.#figure("checkpoint", sizeMiB, {
      ratios: [
        { ramet: "paused", bare: "runsc checkpoint", limit: 1.3 },
        { ramet: "paused, seen inside", bare: "paused, seen inside" },
        { ramet: "succeeded", bare: "runsc checkpoint" },
      ],
      goals: { ...(sizeMiB === 0 && { succeeded: 200 }), ...(sizeMiB === 1024 && { paused: 600 }) },
    });
    const source = await this.#source(sizeMiB);
    const bare = await this.#bare.running(sizeMiB);
    const ip = addressOf(source);
    await reportTurns(this.#context, figure, {
      ramet: async (turn, measured) => {
        await firstAnswer(ip, "/gap/start");
        const [checkpoint, measures] = await measured(() =>
          this.#capture(`checkpoint-${sizeMiB}-${turn}`, source.metadata.name),
        );
        const gap = Number(await firstAnswer(ip, "/gap/stop"));
        await this.#cluster.remove(this.#cluster.cluster.checkpoints, checkpoint);
        return { ...measures, "paused, seen inside": gap };
      },
      bare: this.#bare.checkpoint(bare),
    });
    await bare.remove();
    await this.#cluster.remove(this.#cluster.cluster.sandboxes, source);
  }

  async clone(sizeMiB: number): Promise<void> {
    const { hugePages } = this.#context;
    const figure = this.#figure("clone", sizeMiB, {
      ratios: [
        { ramet: "ready", bare: "runsc restore", limit: 2 },
        { ramet: "answers", bare: "answers", limit: 2 },
      ],
      goals: { ...(sizeMiB === 0 && { answers: 250 }), ...(sizeMiB === 1024 && hugePages && { answers: 400 }) },
    });
    const source = await this.#source(sizeMiB);
    const [checkpoint] = await this.#capture(`source-${sizeMiB}`, source.metadata.name);
    await this.#cluster.remove(this.#cluster.cluster.sandboxes, source);
    const image = await this.#bare.image(sizeMiB);
    await reportTurns(this.#context, figure, {
      ramet: async (turn, measured) => {
        const { checkpointId } = checkpoint.status ?? {};
        const request = { name: `clone-${sizeMiB}-${turn}`, sizeMiB, checkpointId };
        const [sandbox, measures] = await measured(() => this.#create(request));
        await this.#cluster.remove(this.#cluster.cluster.sandboxes, sandbox);
        return measures;
      },
      bare: this.#bare.restore(image, sizeMiB),
    });
    await rm(image, { recursive: true });
    await this.#cluster.remove(this.#cluster.cluster.checkpoints, checkpoint);
  }

  /** A clone into the Pod of a set's ready sandbox, claimed as a gateway does. */
  async warm(sizeMiB: number): Promise<void> {
    const { hugePages } = this.#context;
    const figure = this.#figure("warm clone", sizeMiB, {
      ratios: [
        { ramet: "answers", bare: "runsc restore", limit: 1.5 },
        { ramet: "answers", bare: "answers" },
      ],
      goals: { ...(sizeMiB === 0 && { answers: 120 }), ...(sizeMiB === 1024 && hugePages && { answers: 300 }) },
    });
    const source = await this.#source(sizeMiB);
    const [checkpoint] = await this.#capture(`warm-${sizeMiB}`, source.metadata.name);
    await this.#cluster.remove(this.#cluster.cluster.sandboxes, source);
    const set = await WarmSet.open(this.#cluster, `warm-${sizeMiB}-${++this.#number}`, sizeMiB);
    const image = await this.#bare.image(sizeMiB);
    await reportTurns(this.#context, figure, {
      ramet: async (_, measured) => {
        await set.full();
        const before = await controllerCounters(this.#controllerPid);
        const [sandbox, measures] = await measured(async () => {
          const elapsed = stopwatch();
          let claimed = 0;
          const clone = await set.clone(checkpoint.status?.checkpointId ?? "", () => (claimed = elapsed()));
          const ready = elapsed();
          await firstAnswer(addressOf(clone));
          const answers = elapsed();
          return [clone, { claimed, ready, answers, ...phases(clone.status?.ramet?.phases) }] as const;
        });
        // The set refills a little later.
        await sleep(echoMilliseconds);
        const spent = spentBetween(before, await controllerCounters(this.#controllerPid));
        await this.#cluster.remove(this.#cluster.cluster.sandboxes, sandbox);
        return {
          ...measures,
          "number of API writes": 1 + sum(spent.writes),
          "number of reconciles": sum(spent.reconciles),
        };
      },
      bare: this.#bare.restore(image, sizeMiB, { created: true }),
    });
    await set.close();
    await rm(image, { recursive: true });
    await this.#cluster.remove(this.#cluster.cluster.checkpoints, checkpoint);
  }

  /** Measures from the request until the workload responds, with the observed steps. */
  async #create(request: SandboxRequest): Promise<[Sandbox, Measures]> {
    const start = performance.now();
    const elapsed = (now = performance.now()): number => now - start;
    const created = await this.#cluster.requestSandbox(request);
    const accepted = elapsed();
    const sandbox = await this.#cluster.untilReady(created);
    const ready = elapsed();
    await firstAnswer(addressOf(sandbox));
    const answers = elapsed();
    const { made, bound, running } = this.#timeline.of(request.name);
    const seen = { "at: pod made": made, "at: pod bound": bound, "at: pod running": running };
    const instants = Object.entries(seen).flatMap(([name, at]) => (at === undefined ? [] : [[name, elapsed(at)]]));
    return [
      sandbox,
      {
        "at: request accepted": accepted,
        ...(Object.fromEntries(instants) as Measures),
        ready,
        answers,
        ...phases(sandbox.status?.ramet?.phases),
      },
    ];
  }

  async #capture(name: string, sandboxName: string): Promise<[Checkpoint, Measures]> {
    const elapsed = stopwatch();
    const requested = await this.#cluster.requestCheckpoint(name, sandboxName);
    const accepted = elapsed();
    const done = await this.#cluster.untilFinished(requested);
    const succeeded = elapsed();
    const { phase, message, ramet } = done.status ?? {};
    if (phase !== "Succeeded") throw new Error(`the checkpoint ${name} failed: ${message ?? ""}`);
    const paused = ramet?.pausedMilliseconds ?? 0;
    return [done, { "at: request accepted": accepted, paused, succeeded, ...phases(ramet?.phases) }];
  }

  async #source(sizeMiB: number): Promise<Sandbox> {
    const sandbox = await this.#cluster.createSandbox({ name: `source-${sizeMiB}-${++this.#number}`, sizeMiB });
    await firstAnswer(addressOf(sandbox));
    return sandbox;
  }

  #figure(name: string, sizeMiB: number, rest: Partial<Figure>): Figure {
    return newFigure({ name, level: "cluster", sizeMiB, hugePages: this.#context.hugePages, ...rest });
  }
}

function addressOf({ metadata, status }: Sandbox): string {
  if (status?.sandboxIp === undefined) throw new Error(`${metadata.name} has no address`);
  return status.sandboxIp;
}

function sum(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}
