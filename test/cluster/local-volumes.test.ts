import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { isPodReady } from "../../src/api/schema/pod.ts";
import { parseObject } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { readStatus } from "../../src/local/cluster-status.ts";
import { snapshotResources } from "../../src/kube/volumes/snapshots.ts";
import { Claim } from "../../src/kube/volumes/volumes.ts";
import { runningCluster } from "./running-cluster.ts";

const cluster = runningCluster();

const namespace = "default";
const volumePrograms = ["csi-driver", "snapshot-controller", "csi-snapshotter"];

const claims = async () =>
  (await cluster.client()).resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value));

async function createClaim(name: string, spec: object = {}): Promise<void> {
  await (
    await claims()
  ).create({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace, name },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...spec },
  });
}

async function snapshot(name: string, claim: string): Promise<void> {
  const client = await cluster.client();
  await client.resource(snapshotResources.snapshots).create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshot",
    metadata: { namespace, name },
    spec: { source: { persistentVolumeClaimName: claim } },
  });
  await cluster.until(snapshotResources.snapshots, { namespace, name }, parseObject, (found) =>
    JSON.stringify(found ?? {}).includes('"readyToUse":true'),
  );
}

const fromSnapshot = (name: string) => ({
  dataSource: { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name },
});

/** Runs a Python program in a sandbox that mounts the claim at /data. @returns what it prints */
async function run(sandbox: string, claimName: string, program: string): Promise<string> {
  await cluster.createSandbox(sandbox, `${program}\nimport time; time.sleep(600)`, {
    container: { volumeMounts: [{ name: "data", mountPath: "/data" }] },
    volumes: [{ name: "data", persistentVolumeClaim: { claimName } }],
  });
  await cluster.untilPod(sandbox, (pod) => pod !== undefined && isPodReady(pod));
  await cluster.untilPrinted(sandbox);
  return cluster.logs(sandbox);
}

async function remove(sandbox: string): Promise<void> {
  await cluster.deleteSandbox(sandbox);
  await cluster.untilPod(sandbox, (pod) => pod === undefined);
}

const parts = () => readStatus(cluster.directory.status)?.parts ?? [];
const stateOf = (name: string) => parts().find((part) => part.name === name)?.state;
const stored = (kind: "volumes" | "snapshots") => readdirSync(join(cluster.directory.volumes, kind));
const read = "print(open('/data/file').read())";

it("starts no program of volumes before the first claim", async () => {
  expect(parts().filter(({ name }) => volumePrograms.includes(name))).toEqual([]);
  await createClaim("unused");
  await expect
    .poll(async () => (await (await claims()).get({ namespace, name: "unused" })).status?.phase)
    .toBe("Bound");
  expect(stateOf("csi-driver")).toBe("running");
  expect(parts().map(({ name }) => name)).not.toContain("csi-snapshotter");
});

it("restores a VolumeSnapshot of a sandbox's claim into the claims of other sandboxes", async () => {
  await createClaim("work");
  await run("writer", "work", "open('/data/file', 'w').write('kept'); print('written')");
  await snapshot("work", "work");
  await createClaim("clone", fromSnapshot("work"));
  const change = `${read}; open('/data/file', 'w').write('changed')`;
  expect(await run("reader", "clone", change)).toBe("kept\n");
  await createClaim("second", fromSnapshot("work"));
  expect(await run("other", "second", change)).toBe("kept\n");
});

it("enlarges the claim of a running sandbox", async () => {
  await (
    await claims()
  ).mergePatch({ namespace, name: "work" }, { spec: { resources: { requests: { storage: "3Gi" } } } });
  await expect
    .poll(async () => (await (await claims()).get({ namespace, name: "work" })).status?.capacity)
    .toEqual({ storage: "3Gi" });
});

it("deletes the data of a claim and of a snapshot with them", async () => {
  const before = stored("volumes").length;
  await createClaim("short");
  await expect.poll(() => stored("volumes").length).toBe(before + 1);
  await snapshot("short", "short");
  await (await claims()).delete({ namespace, name: "short" });
  await expect.poll(() => stored("volumes").length).toBe(before);
  await (await cluster.client()).resource(snapshotResources.snapshots).delete({ namespace, name: "short" });
  await expect.poll(() => stored("snapshots").length).toBe(1);
});

it("loses nothing if its programs are killed", async () => {
  const killed = [...volumePrograms, "node"].map((name) => ({ name, pid: cluster.pid(name) }));
  for (const { pid } of killed) process.kill(pid, "SIGKILL");
  await createClaim("after-kill", fromSnapshot("work"));
  expect(await run("after-kill", "after-kill", read)).toBe("kept\n");
  await snapshot("after-kill", "after-kill");
  for (const { name, pid } of killed) {
    await expect.poll(() => stateOf(name)).toBe("running");
    expect(cluster.pid(name)).not.toBe(pid);
  }
  await remove("writer");
  expect(await run("after", "work", read)).toBe("kept\n");
});

it("keeps volumes and snapshots while the cluster is down", async () => {
  await cluster.down();
  await cluster.up();
  await createClaim("after-up", fromSnapshot("work"));
  expect(await run("up-again", "after-up", read)).toBe("kept\n");
  expect(await run("up-work", "work", read)).toBe("kept\n");
});
