import { type NamedSnapshot, namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { type LocalCluster, namespace } from "./local-cluster.ts";
import { summary, type Summary } from "./samples.ts";
import { settledCounters, type Spent, spentBetween } from "./writes.ts";

/** The cost of building a version of a recipe of ten short steps after one of them was changed. */
export interface RecipeBuild {
  change: "all new" | "step 10" | "step 5" | "step 1" | "nothing";
  n: number;
  cachedSteps: number;
  /** Milliseconds from the user's write until the user's watch shows the version as current. Without a change, not measured. */
  milliseconds?: Summary;
  /** The writes of the controller process, per build. */
  writes: number;
  reconciles: number;
}

const stepCount = 10;
const changes = [
  { change: "all new", first: 1 },
  { change: "step 10", first: 10 },
  { change: "step 5", first: 5 },
  { change: "step 1", first: 1 },
] as const;

/**
 * Builds `n` named snapshots in real sandboxes. Each has unique steps, so that no step is cached from the previous one.
 *
 * @throws Error if a build used an unexpected number of cached steps, or if a write without a change caused work
 */
export async function measureRecipe(cluster: LocalCluster, n: number, signal: AbortSignal): Promise<RecipeBuild[]> {
  const bench = new RecipeBench(cluster);
  const template = await cluster.cluster.templates.create(templateManifest, { signal });
  for (let round = 0; round < n; round++) {
    signal.throwIfAborted();
    await bench.round(`recipe-${round}`);
    process.stderr.write(`\rrecipe: ${round + 1}/${n} `);
  }
  process.stderr.write("\r\x1b[K");
  await cluster.remove(cluster.cluster.templates, template);
  return bench.results(n);
}

interface Build {
  milliseconds?: number;
  spent: Spent;
}

class RecipeBench {
  readonly #cluster: LocalCluster;
  readonly #builds = new Map<RecipeBuild["change"], Build[]>();

  constructor(cluster: LocalCluster) {
    this.#cluster = cluster;
  }

  async round(name: string): Promise<void> {
    const words = Array.from({ length: stepCount }, () => name);
    let last: NamedSnapshot | undefined;
    for (const { change, first } of changes) {
      words[first - 1] = `${name} ${change}`;
      const before = await settledCounters(this.#cluster);
      const since = performance.now();
      last = await this.#build(name, words);
      const milliseconds = performance.now() - since;
      this.#add(change, { milliseconds, spent: spentBetween(before, await settledCounters(this.#cluster)) });
      const cached = last.status?.steps?.filter((step) => step.cached).length;
      if (cached !== first - 1) throw new Error(`${name}, ${change}: ${cached} steps came from the cache`);
    }
    if (last === undefined) return;
    this.#add("nothing", { spent: await this.#changeNothing(last) });
    await this.#cluster.remove(this.#cluster.cluster.snapshots, last);
  }

  results(n: number): RecipeBuild[] {
    return [...this.#builds].map(([change, builds]) => {
      const times = builds.flatMap(({ milliseconds }) => (milliseconds === undefined ? [] : [milliseconds]));
      const milliseconds = summary(times);
      const perBuild = (of: (spent: Spent) => Record<string, number>): number =>
        builds.reduce((total, { spent }) => total + sum(of(spent)), 0) / n;
      return {
        change,
        n,
        cachedSteps: cachedSteps(change),
        ...(milliseconds && { milliseconds }),
        writes: perBuild(({ writes }) => writes),
        reconciles: perBuild(({ reconciles }) => reconciles),
      };
    });
  }

  async #build(name: string, words: readonly string[]): Promise<NamedSnapshot> {
    const { snapshots } = this.#cluster.cluster;
    const from = await snapshots.apply(snapshotManifest(name, words), { fieldManager: "bench", force: true });
    return this.#cluster.until(snapshots, from, (seen) => {
      const building = findCondition(seen?.status?.conditions, "Building");
      const isHeard = (seen?.status?.observedGeneration ?? 0) >= (from.metadata.generation ?? 0);
      if (!isHeard || building?.status !== "False") return false;
      if (building.reason !== "Built") throw new Error(`${name} was not built: ${building.message}`);
      return true;
    });
  }

  /** A new label causes a reconcile, but does not change the inputs of a build. */
  async #changeNothing({ metadata }: NamedSnapshot): Promise<Spent> {
    const { snapshots } = this.#cluster.cluster;
    const before = await settledCounters(this.#cluster);
    const { status } = await snapshots.get(metadata);
    await snapshots.mergePatch(metadata, { metadata: { labels: { looked: "at" } } });
    const spent = spentBetween(before, await settledCounters(this.#cluster));
    const made = ["create sandboxes", "create checkpoints"].filter((write) => spent.writes[write] !== undefined);
    if (made.length > 0) throw new Error(`a write without a change led to: ${made.join(", ")}`);
    const after = await snapshots.get(metadata);
    if (JSON.stringify(after.status) !== JSON.stringify(status))
      throw new Error("a write without a change changed the status");
    return spent;
  }

  #add(change: RecipeBuild["change"], build: Build): void {
    this.#builds.set(change, [...(this.#builds.get(change) ?? []), build]);
  }
}

function cachedSteps(change: RecipeBuild["change"]): number {
  return (changes.find((one) => one.change === change)?.first ?? stepCount + 1) - 1;
}

const templateManifest = {
  apiVersion: sandboxTemplateKind.apiVersion,
  kind: "SandboxTemplate",
  metadata: { name: "recipe", namespace },
  spec: { template: { spec: { containers: [{ name: "main", image: "python", command: ["sleep", "infinity"] }] } } },
};

function snapshotManifest(name: string, words: readonly string[]) {
  return {
    apiVersion: namedSnapshotKind.apiVersion,
    kind: "NamedSnapshot",
    metadata: { name, namespace },
    spec: {
      from: { template: { name: templateManifest.metadata.name } },
      recipe: words.map((word, index) => ({ run: `echo ${word} > /step-${index + 1}` })),
      deletionPolicy: "Delete" as const,
    },
  };
}

function sum(values: Record<string, number>): number {
  return Object.values(values).reduce((total, value) => total + value, 0);
}
