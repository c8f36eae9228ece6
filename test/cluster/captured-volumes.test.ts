import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { snapshotContentsIn, snapshotsIn } from "../../src/kube/volumes/snapshots.ts";
import { claimsIn } from "../../src/kube/volumes/volumes.ts";
import { CliHome, type Outcome } from "./cli-home.ts";

/** A local cluster with real volumes, the real snapshot-controller and gVisor, as a user has it. */
let home: string;
let cli: CliHome;
let client: KubeClient;

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "ramet-volumes-"));
  cli = new CliHome(home);
  await ramet("local", "up");
  const status = JSON.parse((await ramet("local", "status", "-o", "json")).stdout) as { kubeconfig: string };
  client = new KubeClient(await connectionFromKubeconfig({ path: status.kubeconfig }));
}, 400_000);
afterAll(async () => {
  await client.close();
  await ramet("local", "down", "--purge");
  await rm(home, { recursive: true, force: true });
});

async function ramet(...args: string[]): Promise<Outcome> {
  const outcome = await cli.ramet(args);
  expect(outcome.exitCode, outcome.stderr).toBe(0);
  return outcome;
}

const namespace = "default";
const sandboxes = () => client.resource(refOf(sandboxKind), (value) => Sandbox.parse(value));
const checkpoints = () => client.resource(refOf(checkpointKind), (value) => Checkpoint.parse(value));
const claimSpec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } };

/** Counts in memory and in a file of the volume, which it keeps open. */
const counting = `
import os, time
n = 0
with open('/data/count', 'w') as f:
    while True:
        n += 1
        f.seek(0); f.write(str(n)); f.flush()
        open('/tmp/count', 'w').write(str(n))
        time.sleep(0.02)
`;

async function createSandbox(name: string, spec: object, annotations: Record<string, string> = {}): Promise<void> {
  await sandboxes().create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name, namespace, annotations },
    spec,
  });
}

const mounts = [{ name: "data", mountPath: "/data" }];
/** A sandbox with a claim of its own, which runs a Python program. */
const running = (code: string) => ({
  template: {
    spec: { containers: [{ name: "main", image: "python", command: ["python3", "-c", code], volumeMounts: mounts }] },
  },
  volumeClaimTemplates: [{ metadata: { name: "data" }, spec: claimSpec }],
});

async function untilRunning(name: string): Promise<Sandbox> {
  let found: Sandbox | undefined;
  await expect
    .poll(
      async () => {
        found = await sandboxes().get({ namespace, name });
        if (found.status?.phase === "Failed") throw new Error(found.status.message);
        return findCondition(found.status?.conditions, "Ready")?.status;
      },
      { timeout: 60_000 },
    )
    .toBe("True");
  return found!;
}

async function capture(...args: string[]): Promise<Checkpoint> {
  const id = (await ramet("checkpoint", "create", ...args)).stdout.trim();
  const found = (await checkpoints().list({ namespace })).items.find(({ status }) => status?.checkpointId === id);
  return found!;
}

const count = async (sandbox: string, file: string): Promise<number> => Number(await cli.exec(sandbox, "cat", file));

it("captures memory, files and the volume of a sandbox, and clones all of them", async () => {
  await createSandbox("a", running(counting));
  await untilRunning("a");
  const before = await count("a", "/data/count");
  const checkpoint = await capture("a", "--contents", "memory,filesystem,volumes");
  const after = await count("a", "/data/count");
  expect(after).toBeGreaterThan(before);
  const { parts = [], volumes } = checkpoint.status?.ramet ?? {};
  expect(parts.map(({ backend, contents }) => [backend, contents])).toEqual([
    ["csi", ["volumes"]],
    ["cell", ["memory", "filesystem"]],
  ]);
  expect(parts[0]?.volume).toMatchObject({ volume: "data", claim: "data-a", driver: "local.csi.ramet.dev" });
  expect(volumes).toBeUndefined();
  expect(findCondition(checkpoint.status?.conditions, "VolumesCaptured")?.status).toBe("True");

  const id = checkpoint.status?.checkpointId ?? "";
  await ramet("sandbox", "create", "--from", id, "--name", "b");
  await untilRunning("b");
  const claim = await claimsIn(client).get({ namespace, name: "data-b" });
  expect(claim.spec.dataSource).toMatchObject({ kind: "VolumeSnapshot", name: parts[0]?.volume?.snapshot });
  // The clone's program has the file open and continues to count in it, from the captured value.
  const first = await count("b", "/data/count");
  expect(first).toBeGreaterThanOrEqual(before);
  await expect.poll(() => count("b", "/data/count")).toBeGreaterThan(first);
  expect(Math.abs((await count("b", "/tmp/count")) - (await count("b", "/data/count")))).toBeLessThan(200);
});

/**
 * Writes numbers into the volume as fast as it can, and before each one compares the volume with its memory. They differ only if the
 * program was restored with a volume of another moment.
 */
const comparing = `
import os
n = 0
fd = os.open('/data/count', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'%020d' % n, 0)
while True:
    found = int(os.pread(fd, 20, 0))
    if found != n:
        open('/tmp/violation', 'a').write(f'memory {n}, volume {found}\\n')
        n = found
    n += 1
    os.pwrite(fd, b'%020d' % n, 0)
`;

/** What a clone of a checkpoint with this consistency has noticed. */
async function violationsIn(name: string, consistency: "crash" | "atomic"): Promise<string> {
  const { status } = await capture("w", "--contents", "memory,filesystem,volumes", "--consistency", consistency);
  const { ramet: record, checkpointId = "" } = status ?? {};
  expect(record).toMatchObject({ consistency });
  expect(record?.notAtomic).toBeUndefined();
  await ramet("sandbox", "create", "--from", checkpointId, "--name", name);
  await untilRunning(name);
  const found = await cli.exec(name, "sh", "-c", "sleep 0.2; cat /tmp/violation 2> /dev/null || true");
  await sandboxes().delete({ namespace, name });
  return found;
}

it("captures memory and volume at one moment with atomic, while a program writes at full speed", async () => {
  await createSandbox("w", running(comparing));
  await untilRunning("w");
  for (let round = 0; round < 5; round++) expect(await violationsIn(`atomic-${round}`, "atomic")).toBe("");
  expect(await cli.exec("w", "sh", "-c", "cat /tmp/violation 2> /dev/null || true")).toBe("");
  // The check would notice a volume of another moment.
  expect(await violationsIn("crash", "crash")).toMatch(/^memory \d+, volume \d+$/);
});

it("clones the volume alone into a sandbox that starts from its image", async () => {
  await createSandbox("c", running(counting));
  await untilRunning("c");
  await cli.exec("c", "sh", "-c", "echo kept > /data/note");
  const { status } = await capture("c", "--contents", "volumes");
  expect(status?.ramet?.parts?.map(({ contents }) => contents)).toEqual([["volumes"]]);
  await cli.exec("c", "sh", "-c", "echo changed > /data/note");
  await ramet("sandbox", "create", "--from", status?.checkpointId ?? "", "--name", "d");
  await untilRunning("d");
  expect(await cli.exec("d", "cat", "/data/note")).toBe("kept");
  expect(await cli.exec("c", "cat", "/data/note")).toBe("changed");
});

it("deletes the data of a volume with its checkpoint, and leaves the clones alone", async () => {
  const { status, metadata } = await capture("c", "--contents", "volumes", "--name", "short");
  const { snapshot = "", claim } = status?.ramet?.parts?.[0]?.volume ?? {};
  expect(claim).toBe("data-c");
  const bound = (await snapshotsIn(client).get({ namespace, name: snapshot })).status?.boundVolumeSnapshotContentName;
  const contents = snapshotContentsIn(client);
  expect((await contents.get({ name: bound ?? "" })).spec.deletionPolicy).toBe("Retain");
  await ramet("sandbox", "create", "--from", status?.checkpointId ?? "", "--name", "e");
  await untilRunning("e");
  await ramet("checkpoint", "rm", metadata.name);
  await expect.poll(() => checkpoints().find({ namespace, name: "short" }), { timeout: 60_000 }).toBeUndefined();
  expect(await snapshotsIn(client).find({ namespace, name: snapshot })).toBeUndefined();
  await expect.poll(() => contents.find({ name: bound ?? "" })).toBeUndefined();
  expect(await cli.exec("e", "cat", "/data/note")).toBe("changed");
});

it("refuses a volume that the sandbox does not have, and leaves no VolumeSnapshot", async () => {
  const before = (await snapshotsIn(client).list({ namespace })).items.length;
  const refused = await cli.ramet(["checkpoint", "create", "c", "--volumes", "other"]);
  expect(refused.exitCode).not.toBe(0);
  expect(refused.stderr).toContain("has no volume other that is a PersistentVolumeClaim; it has data");
  expect((await snapshotsIn(client).list({ namespace })).items).toHaveLength(before);
});
