import type { Contents } from "../../src/api/schema/metadata.ts";
import { runInSandbox } from "./in-sandbox.ts";
import type { LocalCluster } from "./local-cluster.ts";
import { summary, type Summary } from "./samples.ts";
import { firstAnswer } from "./workload.ts";

/** Checkpoints of a running sandbox with written files, and a second one after one file in twenty has changed. */
export interface CapturedFiles {
  filesMiB: number;
  contents: "memory and files" | "files";
  pausedMilliseconds: Summary;
  secondPausedMilliseconds: Summary;
  /** What the store did not have before: means. */
  addedMiB: number;
  secondAddedMiB: number;
}

interface Capture {
  paused: number;
  addedMiB: number;
}

const memoryMiB = 50;
const contentsOf: Record<CapturedFiles["contents"], Contents> = {
  "memory and files": ["memory", "filesystem"],
  files: ["filesystem"],
};

export async function measureCapturedFiles(
  cluster: LocalCluster,
  { n, sizesMiB }: { n: number; sizesMiB: readonly number[] },
): Promise<CapturedFiles[]> {
  const points: CapturedFiles[] = [];
  for (const contents of ["memory and files", "files"] as const) {
    for (const filesMiB of sizesMiB) {
      const turns: { first: Capture; second: Capture }[] = [];
      for (let turn = 0; turn < n; turn++) {
        process.stderr.write(`\rcaptures of ${contents} with ${filesMiB} MiB of files: ${turn + 1}/${n} `);
        turns.push(await captureTwice(cluster, filesMiB, contentsOf[contents]));
      }
      const of = (value: (turn: (typeof turns)[number]) => number): Summary => summary(turns.map(value))!;
      points.push({
        filesMiB,
        contents,
        pausedMilliseconds: of(({ first }) => first.paused),
        secondPausedMilliseconds: of(({ second }) => second.paused),
        addedMiB: of(({ first }) => first.addedMiB).mean,
        secondAddedMiB: of(({ second }) => second.addedMiB).mean,
      });
    }
  }
  process.stderr.write("\r\x1b[K");
  return points;
}

async function captureTwice(cluster: LocalCluster, filesMiB: number, contents: Contents) {
  const sandbox = await cluster.createSandbox({ name: "captured", sizeMiB: memoryMiB });
  await firstAnswer(sandbox.status?.sandboxIp ?? "");
  await runInSandbox(cluster, sandbox, write(filesMiB, 1));
  const first = await cluster.createCheckpoint("captured-1", "captured", contents);
  await runInSandbox(cluster, sandbox, write(filesMiB, changedEvery));
  const second = await cluster.createCheckpoint("captured-2", "captured", contents);
  for (const one of [first, second]) await cluster.remove(cluster.cluster.checkpoints, one);
  await cluster.remove(cluster.cluster.sandboxes, sandbox);
  const [one, two] = [first, second].map(({ status }) => ({
    paused: status?.ramet?.pausedMilliseconds ?? NaN,
    addedMiB: (status?.ramet?.addedBytes ?? status?.ramet?.sizeBytes ?? NaN) / 2 ** 20,
  }));
  return { first: one!, second: two! };
}

const changedEvery = 20;

/** Writes files of 1 MiB of random bytes, or each `step`th of them again, and waits until they are on the disk. */
function write(count: number, step: number): string {
  const files = `"/root/captured/%d" % n`;
  const program = `import os; os.makedirs("/root/captured", exist_ok=True); [open(${files}, "wb").write(os.urandom(1 << 20)) for n in range(0, ${count}, ${step})]; os.sync()`;
  return `python3 -c '${program}'`;
}
