import { setTimeout as sleep } from "node:timers/promises";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { stopwatch } from "./figure.ts";
import { type LocalCluster, namespace } from "./local-cluster.ts";
import { podMemory } from "./pod-memory.ts";
import { summary, type Summary } from "./samples.ts";
import { WarmSet } from "./warm-set.ts";
import { firstAnswer, workloadCommand, workloadPort } from "./workload.ts";

/** Clones of a version with `layers: true` whose program has 50 MiB of memory, by the size of its files. */
export interface FilesPoint {
  filesMiB: number;
  /** From the first write until the clone has responded. */
  newPodMilliseconds: Summary;
  /** From the claim of a ready sandbox until the clone has responded. */
  warmMilliseconds: Summary;
  /** The memory of all processes of a clone's Pod, with several clones running. */
  pssMiB: number;
  /** What the version stores for memory and written files, without the layer. */
  storedMiB: number;
  /** Only of the largest: clones that are created at the same time. */
  atOnce?: { clones: number; allMilliseconds: number; pssMiB: number };
}

const memoryMiB = 50;

/** @throws Error if a program was started instead of cloned */
export async function measureFiles(
  cluster: LocalCluster,
  { n, clones, sizesMiB }: { n: number; clones: number; sizesMiB: readonly number[] },
): Promise<FilesPoint[]> {
  await cluster.cluster.templates.create(templateManifest);
  const benches: FilesBench[] = [];
  for (const filesMiB of sizesMiB)
    benches.push(new FilesBench(cluster, { checkpointId: await build(cluster, filesMiB), filesMiB }));
  const warm = await WarmSet.open(cluster, "files", memoryMiB);
  // One after the other in each turn, as the machine is not equally fast all the time.
  for (let turn = 0; turn <= n; turn++) for (const bench of benches) await bench.measure(warm, turn);
  process.stderr.write("\r\x1b[K");
  await warm.close();
  const points = await Promise.all(benches.map((bench) => bench.point()));
  const [last, bench] = [points.pop(), benches.at(-1)];
  return last === undefined || bench === undefined ? [] : [...points, { ...last, atOnce: await bench.atOnce(clones) }];
}

class FilesBench {
  readonly #cluster: LocalCluster;
  readonly #version: { checkpointId: string; filesMiB: number };
  readonly #cold: number[] = [];
  readonly #hot: number[] = [];
  #pssMiB = 0;

  constructor(cluster: LocalCluster, version: { checkpointId: string; filesMiB: number }) {
    this.#cluster = cluster;
    this.#version = version;
  }

  async measure(warm: WarmSet, turn: number): Promise<void> {
    const { checkpointId, filesMiB } = this.#version;
    process.stderr.write(`\rclones on ${filesMiB} MiB of files: ${turn} `);
    await warm.full();
    const elapsed = stopwatch();
    const clone = await this.#create(`files-${filesMiB}-${turn}`);
    const newPod = elapsed();
    await warm.full();
    const since = stopwatch();
    const restored = await warm.clone(checkpointId, () => undefined);
    await answered(restored.status?.sandboxIp);
    const inWarm = since();
    this.#pssMiB = await this.#pss(clone.metadata.name);
    for (const one of [clone, restored]) await this.#cluster.remove(this.#cluster.cluster.sandboxes, one);
    // The first clone unpacks the layer.
    if (turn === 0) return;
    this.#cold.push(newPod);
    this.#hot.push(inWarm);
  }

  async point(): Promise<FilesPoint> {
    const { checkpointId, filesMiB } = this.#version;
    const { items } = await this.#cluster.cluster.checkpoints.list({ namespace });
    const version = items.find(({ status }) => status?.checkpointId === checkpointId);
    return {
      filesMiB,
      newPodMilliseconds: summary(this.#cold)!,
      warmMilliseconds: summary(this.#hot)!,
      pssMiB: this.#pssMiB,
      storedMiB: (version?.status?.ramet?.sizeBytes ?? 0) / 2 ** 20,
    };
  }

  async atOnce(clones: number): Promise<NonNullable<FilesPoint["atOnce"]>> {
    await sleep(restMilliseconds);
    const elapsed = stopwatch();
    const made = await Promise.all(Array.from({ length: clones }, (_, at) => this.#create(`at-once-${at}`)));
    const allMilliseconds = elapsed();
    await sleep(restMilliseconds);
    const pss = await Promise.all(made.map(({ metadata }) => this.#pss(metadata.name)));
    for (const one of made) await this.#cluster.remove(this.#cluster.cluster.sandboxes, one);
    return { clones, allMilliseconds, pssMiB: pss.reduce((sum, one) => sum + one, 0) / clones };
  }

  async #create(name: string) {
    const clone = await this.#cluster.createSandbox({
      name,
      checkpointId: this.#version.checkpointId,
      sizeMiB: memoryMiB,
    });
    await answered(clone.status?.sandboxIp);
    return clone;
  }

  async #pss(name: string): Promise<number> {
    const { cell, link, engine } = await podMemory(this.#cluster, name);
    return cell.pssMiB + link.pssMiB + engine.pssMiB;
  }
}

const restMilliseconds = 5_000;

/** The source has responded once, so a clone's first response is a larger number. */
async function answered(ip = ""): Promise<void> {
  if (Number(await firstAnswer(ip)) < 2) throw new Error("a program was started instead of cloned");
}

/** @returns the id of the version's checkpoint */
async function build(cluster: LocalCluster, filesMiB: number): Promise<string> {
  const { snapshots } = cluster.cluster;
  const from = await snapshots.create(snapshotManifest(filesMiB));
  const built = await cluster.until(snapshots, from, (seen) => {
    const building = findCondition(seen?.status?.conditions, "Building");
    if (building?.status !== "False") return false;
    if (building.reason !== "Built") throw new Error(`the version was not built: ${building.message}`);
    return true;
  });
  return built.status?.checkpointId ?? "";
}

const templateManifest = {
  apiVersion: sandboxTemplateKind.apiVersion,
  kind: "SandboxTemplate",
  metadata: { name: "files", namespace },
  spec: {
    template: {
      spec: {
        containers: [
          {
            name: "main",
            image: "python",
            command: workloadCommand(memoryMiB),
            ports: [{ containerPort: workloadPort }],
          },
        ],
      },
    },
  },
};

/** Files of 1 MiB with incompressible content, each another one. */
const writeFiles = `import os
block = os.urandom(1 << 20)
os.makedirs("/files", exist_ok=True)
for n in range(COUNT):
  with open(f"/files/{n}", "wb") as file: file.write(n.to_bytes(8, "big") + block[8:])`;

function snapshotManifest(filesMiB: number) {
  const quoted = (words: readonly string[]) => words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  const ask = `from urllib.request import urlopen; urlopen("http://127.0.0.1:${workloadPort}").read()`;
  return {
    apiVersion: namedSnapshotKind.apiVersion,
    kind: "NamedSnapshot",
    metadata: { name: `files-${filesMiB}`, namespace },
    spec: {
      from: { template: { name: templateManifest.metadata.name } },
      layers: true,
      recipe: [
        { run: quoted(["python3", "-c", writeFiles.replace("COUNT", String(filesMiB))]) },
        { waitFor: { port: workloadPort } },
        { run: quoted(["python3", "-c", ask]) },
      ],
      deletionPolicy: "Delete" as const,
    },
  };
}
