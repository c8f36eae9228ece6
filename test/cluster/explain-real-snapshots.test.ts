import { afterAll, beforeAll, expect, it } from "vitest";
import * as z from "zod";
import { runProgram } from "../../src/cli/program.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { snapshotResources } from "../../src/kube/volumes/snapshots.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { startVolumeCluster, type VolumeCluster } from "../setup/volume-cluster.ts";

/** Explanations of the statuses that the real snapshot-controller and csi-snapshotter write. */
let cluster: VolumeCluster;
beforeAll(async () => {
  cluster = await startVolumeCluster();
});
afterAll(() => cluster.stop());

const namespace = "default";
const containing = (text: string) => expect.stringContaining(text) as string;

function createClaim(name: string, spec: object = {}) {
  return cluster.client.resource(coreResources.persistentVolumeClaims).create({
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { namespace, name },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } }, ...spec },
  });
}

function createSnapshot(name: string, spec: object) {
  return cluster.client.resource(snapshotResources.snapshots).create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshot",
    metadata: { namespace, name },
    spec,
  });
}

const of = (persistentVolumeClaimName: string) => ({ source: { persistentVolumeClaimName } });

async function explain(object: string): Promise<unknown> {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: cluster.kubeconfigPath } });
  expect(await runProgram(io, ["explain", object, "-n", namespace, "-o", "json"])).toBe(0);
  return JSON.parse(io.written("stdout"));
}

it("explains a claim that is not bound, a missing claim, and a missing class", async () => {
  await createClaim("unbound", { storageClassName: "", volumeName: "none" });
  const volumeSnapshotClassName = "local-csi-ramet-dev-clone-delete";
  await createSnapshot("unbound", { ...of("unbound"), volumeSnapshotClassName });
  await createSnapshot("missing", { ...of("nothing"), volumeSnapshotClassName });
  await createClaim("data");
  await createSnapshot("classless", { ...of("data"), volumeSnapshotClassName: "gone" });
  await expect
    .poll(() => explain("vs/unbound"))
    .toMatchObject({
      phase: "BlockedBySource",
      reason: "SourceNotBound",
      lastEvent: { reason: "SnapshotContentCreationFailed", message: containing("not yet bound to a PV") },
    });
  await expect
    .poll(() => explain("vs/missing"))
    .toMatchObject({
      phase: "BlockedBySource",
      reason: "SourceMissing",
      lastEvent: { reason: "SnapshotContentCreationFailed" },
    });
  await expect
    .poll(() => explain("vs/classless"))
    .toMatchObject({
      phase: "BlockedByClass",
      reason: "SnapshotClassMissing",
      lastEvent: { reason: "GetSnapshotClassFailed" },
    });
});

/** The snapshot-controller learns of a change of classes a moment later, and a snapshot of before becomes ready. */
async function createBlocked(stem: string): Promise<string> {
  for (let number = 0; ; number += 1) {
    const name = `${stem}-${number}`;
    await createSnapshot(name, of("work"));
    const phase = async () => z.object({ phase: z.string() }).parse(await explain(`vs/${name}`)).phase;
    await expect.poll(phase).toMatch(/^(BlockedByClass|Ready)$/);
    if ((await phase()) === "BlockedByClass") return `vs/${name}`;
  }
}

it("explains no and two default classes, and a snapshot that becomes ready after the repair", async () => {
  const classes = cluster.client.resource(snapshotResources.classes);
  const setDefault = (name: string, isDefault: boolean) =>
    classes.mergePatch(
      { name: `local-csi-ramet-dev-${name}` },
      { metadata: { annotations: { "snapshot.storage.kubernetes.io/is-default-class": String(isDefault) } } },
    );
  await createClaim("work");
  await expect.poll(() => explain("pvc/work")).toMatchObject({ state: "healthy", phase: "Bound" });
  await setDefault("checkpoint-retain", true);
  expect(await explain(await createBlocked("two"))).toMatchObject({
    phase: "BlockedByClass",
    reason: "SeveralDefaultClasses",
    cause: containing("The driver local.csi.ramet.dev has 2 default VolumeSnapshotClasses: local-csi-ramet-dev-"),
  });
  await setDefault("checkpoint-retain", false);
  await setDefault("clone-delete", false);
  const none = await createBlocked("none");
  expect(await explain(none)).toMatchObject({ phase: "BlockedByClass", reason: "NoDefaultClass" });
  await setDefault("clone-delete", true);
  await expect.poll(() => explain(none), { timeout: 30_000 }).toMatchObject({ state: "healthy", phase: "Ready" });
});

it("explains a deletion that waits for a restore", async () => {
  await createClaim("source");
  await createSnapshot("kept", of("source"));
  await expect.poll(() => explain("vs/kept"), { timeout: 30_000 }).toMatchObject({ phase: "Ready" });
  const dataSource = { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: "kept" };
  await createClaim("waiting", { storageClassName: "", volumeName: "none", dataSource });
  await cluster.client.resource(snapshotResources.snapshots).delete({ namespace, name: "kept" });
  await expect
    .poll(() => explain("vs/kept"))
    .toMatchObject({
      phase: "DeleteBlocked",
      reason: "RestoreDeadlock",
      action: containing("kubectl delete pvc waiting"),
      lastEvent: { reason: "SnapshotDeletePending", message: "Snapshot is being used to restore a PVC" },
    });
});
