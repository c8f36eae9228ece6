import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { Checkpoint } from "../../src/api/kinds/checkpoint.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { claimsIn, volumesIn } from "../../src/kube/volumes/volumes.ts";
import { stopwatch } from "./figure.ts";
import { type LocalCluster, namespace } from "./local-cluster.ts";
import { summary, type Summary } from "./samples.ts";

/** The cost of volumes of a local cluster. */
export interface VolumeCosts {
  clones: VolumeClone[];
  atomic: AtomicCaptures;
  together: { snapshots: number; milliseconds: number };
}

/** A volume that is captured alone and cloned into a sandbox with a new Pod. */
export interface VolumeClone {
  what: string;
  captureMilliseconds: Summary;
  /** From the creation of the Sandbox until it is Ready. */
  cloneMilliseconds: Summary;
  /** `cp -a` of the volume's directory, which is what the driver does where the file system shares no blocks. */
  copyMilliseconds: Summary;
}

/** Captures of memory and volume at one moment, of a program that writes at full speed and compares both before each write. */
export interface AtomicCaptures {
  rounds: number;
  /** Clones whose program has found another number in the volume than in its memory. */
  violations: number;
  pausedMilliseconds: Summary;
  captureMilliseconds: Summary;
}

const run = promisify(execFile);
const mounts = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ name: `data-${at}`, mountPath: `/data-${at}` }));

/** Fills the file sparsely or not, and then waits. */
const filled = (gibibytes: number, writtenMiB: number): string => `
import os, time
fd = os.open('/data-0/file', os.O_RDWR | os.O_CREAT)
os.truncate(fd, ${gibibytes} << 30)
for at in range(${writtenMiB}): os.pwrite(fd, os.urandom(1 << 20), at * ((${gibibytes} << 30) // ${writtenMiB}))
os.fsync(fd)
open('/data-0/done', 'w').close()
time.sleep(10000)
`;

/** Exits, which ends the sandbox, if the volume has another number than the memory. */
const comparing = `
import os
n = 0
fd = os.open('/data-0/count', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'%020d' % n, 0)
while int(os.pread(fd, 20, 0)) == n:
    n += 1
    os.pwrite(fd, b'%020d' % n, 0)
`;

export async function measureVolumes(
  cluster: LocalCluster,
  { n, rounds, snapshots }: { n: number; rounds: number; snapshots: number },
): Promise<VolumeCosts> {
  const times = Math.min(n, 5);
  return {
    clones: [
      await clonesOf(cluster, { what: "1 GiB, all written", size: "2Gi", code: filled(1, 1024) }, times),
      await clonesOf(cluster, { what: "20 GiB, 64 MiB of them written", size: "20Gi", code: filled(20, 64) }, times),
    ],
    atomic: await atomicCaptures(cluster, rounds),
    together: await capturedTogether(cluster, snapshots),
  };
}

async function clonesOf(
  cluster: LocalCluster,
  { what, size, code }: { what: string; size: string; code: string },
  times: number,
): Promise<VolumeClone> {
  const source = await create(cluster, { code, size });
  const directory = await dataOf(cluster, `data-0-${source.metadata.name}`);
  while (!(await run("ls", [directory])).stdout.split("\n").includes("done")) await sleep(500);
  const [captures, clones, copies]: [number[], number[], number[]] = [[], [], []];
  for (let round = 0; round < times; round++) {
    const capture = stopwatch();
    const checkpoint = await captured(cluster, source, { persistentContents: ["volumes"] });
    captures.push(capture());
    const elapsed = stopwatch();
    const clone = await cloned(cluster, checkpoint);
    clones.push(elapsed());
    copies.push(await copied(directory));
    await cluster.remove(cluster.cluster.sandboxes, clone);
    await cluster.remove(cluster.cluster.checkpoints, checkpoint);
  }
  await cluster.remove(cluster.cluster.sandboxes, source);
  return {
    what,
    captureMilliseconds: summary(captures)!,
    cloneMilliseconds: summary(clones)!,
    copyMilliseconds: summary(copies)!,
  };
}

async function copied(directory: string): Promise<number> {
  const target = `${directory}.bench-copy`;
  const elapsed = stopwatch();
  await run("cp", ["-a", "--reflink=auto", directory, target]);
  const milliseconds = elapsed();
  await rm(target, { recursive: true });
  return milliseconds;
}

async function atomicCaptures(cluster: LocalCluster, rounds: number): Promise<AtomicCaptures> {
  const source = await create(cluster, { code: comparing });
  const [paused, captures]: [number[], number[]] = [[], []];
  let violations = 0;
  const spec = { persistentContents: ["memory", "filesystem", "volumes"], requireAtomic: true };
  for (let round = 0; round < rounds; round++) {
    const elapsed = stopwatch();
    const checkpoint = await captured(cluster, source, spec);
    captures.push(elapsed());
    paused.push(checkpoint.status?.ramet?.pausedMilliseconds ?? 0);
    const clone = await cloned(cluster, checkpoint);
    // Thousands of comparisons.
    await sleep(200);
    const { status } = await cluster.cluster.sandboxes.get(clone.metadata);
    if (status?.phase !== "Running") violations++;
    await cluster.remove(cluster.cluster.sandboxes, clone);
    await cluster.remove(cluster.cluster.checkpoints, checkpoint);
    process.stderr.write(`\ratomic captures: ${round + 1}/${rounds} `);
  }
  process.stderr.write("\r\x1b[K");
  await cluster.remove(cluster.cluster.sandboxes, source);
  return { rounds, violations, pausedMilliseconds: summary(paused)!, captureMilliseconds: summary(captures)! };
}

/** From the first request until all VolumeSnapshots can be restored. Each sandbox has ten claims. */
async function capturedTogether(cluster: LocalCluster, snapshots: number): Promise<VolumeCosts["together"]> {
  const claims = Math.min(10, snapshots);
  const count = Math.ceil(snapshots / claims);
  const sources: Sandbox[] = [];
  for (let at = 0; at < count; at++) sources.push(await create(cluster, { code: idle, claims }));
  const elapsed = stopwatch();
  const taken = await Promise.all(
    sources.map((source) => captured(cluster, source, { persistentContents: ["volumes"] })),
  );
  const milliseconds = elapsed();
  for (const checkpoint of taken) await cluster.remove(cluster.cluster.checkpoints, checkpoint);
  for (const source of sources) await cluster.remove(cluster.cluster.sandboxes, source);
  return { snapshots: count * claims, milliseconds };
}

const idle = "import time; time.sleep(10000)";

let number = 0;
function newName(): string {
  return `volumes-${++number}`;
}

async function create(
  cluster: LocalCluster,
  { code, size = "1Gi", claims = 1 }: { code: string; size?: string; claims?: number },
): Promise<Sandbox> {
  const volumeMounts = mounts(claims);
  const created = await cluster.cluster.sandboxes.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: newName(), namespace },
    spec: {
      template: {
        spec: { containers: [{ name: "main", image: "python", command: ["python3", "-c", code], volumeMounts }] },
      },
      volumeClaimTemplates: volumeMounts.map(({ name }) => ({
        metadata: { name },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: size } } },
      })),
    },
  });
  return cluster.untilReady(created);
}

/** With the template of the source, which the controllers keep with the checkpoint. */
async function cloned(cluster: LocalCluster, { status }: Checkpoint): Promise<Sandbox> {
  const created = await cluster.cluster.sandboxes.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name: newName(), namespace, annotations: { "ramet.dev/restore-from": status?.checkpointId ?? "" } },
    spec: {},
  });
  return cluster.untilReady(created);
}

async function captured(cluster: LocalCluster, source: Sandbox, spec: Record<string, unknown>): Promise<Checkpoint> {
  const done = await cluster.untilFinished(await cluster.requestCheckpoint(newName(), source.metadata.name, spec));
  if (done.status?.phase !== "Succeeded") throw new Error(done.status?.message ?? "the checkpoint failed");
  return done;
}

/** The directory of a claim's data. */
async function dataOf(cluster: LocalCluster, claim: string): Promise<string> {
  const { client } = cluster.cluster;
  const { volumeName = "" } = (await claimsIn(client).get({ namespace, name: claim })).spec;
  const { csi } = (await volumesIn(client).get({ name: volumeName })).spec;
  return join(cluster.directory.volumes, "volumes", csi?.volumeHandle ?? "", "data");
}
