import { readdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { KubeObject } from "../../src/kube/object.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import { snapshotResources } from "../../src/kube/volumes/snapshots.ts";
import { Claim, volumeResources, Volume } from "../../src/kube/volumes/volumes.ts";
import { startVolumeCluster, type VolumeCluster } from "../setup/volume-cluster.ts";

let cluster: VolumeCluster;
beforeAll(async () => {
  cluster = await startVolumeCluster();
});
afterAll(() => cluster.stop());

const namespace = "default";
const claims = () => cluster.client.resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value));
const volumes = () => cluster.client.resource(volumeResources.volumes, (value) => Volume.parse(value));

function createClaim(name: string, spec: object = {}) {
  return claims().create({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace, name },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...spec },
  });
}

/** The directory of a claim's data, when it is bound. */
async function dataOf(name: string): Promise<string> {
  await expect.poll(async () => (await claims().get({ namespace, name })).status?.phase).toBe("Bound");
  const { volumeName = "" } = (await claims().get({ namespace, name })).spec;
  const volume = await volumes().get({ name: volumeName });
  return join(cluster.driver.directory, "volumes", volume.spec.csi?.volumeHandle ?? "", "data");
}

async function createSnapshot(name: string, source: object, volumeSnapshotClassName?: string): Promise<void> {
  await cluster.client.resource(snapshotResources.snapshots).create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshot",
    metadata: { namespace, name },
    spec: { source, ...(volumeSnapshotClassName !== undefined && { volumeSnapshotClassName }) },
  });
}

/** An object as JSON; empty if it does not exist. */
async function textOf(resource: ResourceRef, at: { namespace?: string; name: string }): Promise<string> {
  const found: KubeObject | undefined = await cluster.client.resource(resource).find(at);
  return found === undefined ? "" : JSON.stringify(found);
}

const ready = (name: string) =>
  expect.poll(() => textOf(snapshotResources.snapshots, { namespace, name })).toContain('"readyToUse":true');
const fromSnapshot = (name: string) => ({
  dataSource: { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name },
});
const entries = (kind: "volumes" | "snapshots") => readdirSync(join(cluster.driver.directory, kind));

/** Removes what only the controller manager of a cluster removes. */
async function deleteClaim(name: string): Promise<void> {
  await claims().delete({ namespace, name });
  await expect
    .poll(async () => {
      const claim = await claims().find({ namespace, name });
      if (claim === undefined) return "gone";
      const finalizers = (claim.metadata.finalizers ?? []).filter((one) => one !== "kubernetes.io/pvc-protection");
      await claims().mergePatch(claim.metadata, { metadata: { finalizers } });
      return finalizers.join(" ");
    })
    .toBe("gone");
}

it("takes a snapshot of a claim, restores it into another one, and deletes what is no longer needed", async () => {
  await createClaim("work");
  await writeFile(join(await dataOf("work"), "file"), "before the snapshot");
  await createSnapshot("first", { persistentVolumeClaimName: "work" });
  await ready("first");
  await writeFile(join(await dataOf("work"), "file"), "after the snapshot");
  await createClaim("restored", fromSnapshot("first"));
  expect(await readFile(join(await dataOf("restored"), "file"), "utf8")).toBe("before the snapshot");
  await createClaim("cloned", { dataSource: { kind: "PersistentVolumeClaim", name: "work" } });
  expect(await readFile(join(await dataOf("cloned"), "file"), "utf8")).toBe("after the snapshot");

  await cluster.client.resource(snapshotResources.snapshots).delete({ namespace, name: "first" });
  await expect.poll(() => entries("snapshots")).toEqual([]);
  for (const name of ["work", "restored", "cloned"]) await deleteClaim(name);
  await expect.poll(() => entries("volumes")).toEqual([]);
  await expect.poll(async () => (await volumes().list()).items).toEqual([]);
});

it("waits for a snapshot that is not ready, and says why", async () => {
  await createClaim("early", fromSnapshot("late"));
  await expect
    .poll(async () => {
      const { items } = await cluster.client.resource(coreResources.events).list({ namespace });
      return JSON.stringify(items);
    })
    .toContain("the VolumeSnapshot late does not exist");
  await createClaim("source");
  await writeFile(join(await dataOf("source"), "file"), "in time");
  await createSnapshot("late", { persistentVolumeClaimName: "source" });
  expect(await readFile(join(await dataOf("early"), "file"), "utf8")).toBe("in time");
});

it("keeps the data of a snapshot of the class for checkpoints, and restores it by its handle", async () => {
  await createClaim("kept");
  await writeFile(join(await dataOf("kept"), "file"), "kept");
  await createSnapshot("kept", { persistentVolumeClaimName: "kept" }, "local-csi-ramet-dev-checkpoint-retain");
  await ready("kept");
  const snapshots = cluster.client.resource(snapshotResources.snapshots);
  const bound = /"boundVolumeSnapshotContentName":"([^"]+)"/.exec(
    await textOf(snapshotResources.snapshots, { namespace, name: "kept" }),
  )?.[1];
  const content = await textOf(snapshotResources.contents, { name: bound ?? "" });
  const handle = /"snapshotHandle":"([^"]+)"/.exec(content)?.[1] ?? "";
  await snapshots.delete({ namespace, name: "kept" });
  await expect.poll(() => textOf(snapshotResources.snapshots, { namespace, name: "kept" })).toBe("");
  expect(entries("snapshots")).toContain(handle);
  await cluster.client.resource(snapshotResources.contents).create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshotContent",
    metadata: { name: "imported" },
    spec: {
      deletionPolicy: "Retain",
      driver: "local.csi.ramet.dev",
      source: { snapshotHandle: handle },
      sourceVolumeMode: "Filesystem",
      volumeSnapshotRef: { namespace, name: "imported" },
    },
  });
  await createSnapshot("imported", { volumeSnapshotContentName: "imported" });
  await ready("imported");
  await createClaim("from-import", fromSnapshot("imported"));
  expect(await readFile(join(await dataOf("from-import"), "file"), "utf8")).toBe("kept");
});

it("enlarges the volume of a claim", async () => {
  await createClaim("growing");
  await dataOf("growing");
  await claims().mergePatch({ namespace, name: "growing" }, { spec: { resources: { requests: { storage: "3Gi" } } } });
  await expect
    .poll(async () => (await claims().get({ namespace, name: "growing" })).status?.capacity)
    .toEqual({ storage: "3Gi" });
});

it("binds a claim to the PersistentVolume that it names", async () => {
  await createClaim("dynamic");
  const data = await dataOf("dynamic");
  const handle = data.split("/").at(-2) ?? "";
  await volumes().create({
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: "static" },
    spec: {
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "1Gi" },
      csi: { driver: "local.csi.ramet.dev", volumeHandle: handle },
      storageClassName: "",
    },
  });
  await createClaim("static", { storageClassName: "", volumeName: "static" });
  expect(await dataOf("static")).toBe(data);
  await deleteClaim("static");
  await expect.poll(async () => (await volumes().get({ name: "static" })).status?.phase).toBe("Released");
  expect(entries("volumes")).toContain(handle);
});
