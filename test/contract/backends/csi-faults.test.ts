import { readdirSync } from "node:fs";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { labels } from "../../../src/api/names/labels.ts";
import type { Backend, CheckpointName } from "../../../src/backends/backend.ts";
import { csiBackend } from "../../../src/backends/csi/csi-backend.ts";
import { snapshotName } from "../../../src/backends/csi/captured-volume.ts";
import type { SandboxRef } from "../../../src/backends/runtime.ts";
import { RametError } from "../../../src/base/errors.ts";
import { driverName } from "../../../src/local/csi/unary.ts";
import { KubeClient } from "../../../src/kube/kube-client.ts";
import {
  type Snapshot,
  snapshotClassesIn,
  snapshotContentsIn,
  snapshotsIn,
} from "../../../src/kube/volumes/snapshots.ts";
import { claimsIn, storageClassesIn, volumesIn } from "../../../src/kube/volumes/volumes.ts";
import { volumeObjects } from "../../../src/local/supervisor/seed-cluster.ts";
import { openControlPlane } from "../../setup/control-plane.ts";
import { withoutGroupClass } from "../../setup/group-class.ts";
import { makeNamespace } from "../../setup/namespace.ts";
import { VolumeClaims } from "../../setup/volume-claims.ts";
import { startVolumeCluster, type VolumeCluster } from "../../setup/volume-cluster.ts";

const namespace = "faults";
let cluster: VolumeCluster;
let claims: VolumeClaims;
let backend: Backend;
let number = 0;

beforeAll(async () => {
  cluster = await startVolumeCluster();
  await makeNamespace(cluster.client, namespace);
  claims = new VolumeClaims(cluster, namespace);
  backend = csiBackend({ client: cluster.client });
});
afterAll(() => cluster.stop());
afterEach(() => {
  for (const { pid } of [cluster.driver.process, cluster.programs["snapshot-controller"]]) process.kill(pid, "SIGCONT");
});

const newName = (): CheckpointName => ({ namespace, checkpointId: `f-${++number}` });
const sandboxOf = (...names: string[]): SandboxRef => ({
  namespace,
  name: names[0] ?? "none",
  uid: `uid-${++number}`,
  podIp: "",
  claims: names.map((claim) => ({ volume: claim, claim })),
});
const captureRequest = (name: CheckpointName, ...names: string[]) => ({
  name,
  source: sandboxOf(...names),
  contents: ["volumes" as const],
  keepRunning: true,
});
const snapshots = () => snapshotsIn(cluster.client);
const contents = () => snapshotContentsIn(cluster.client);

async function newClaim(text: string): Promise<string> {
  const name = `claim-${++number}`;
  await claims.create(name);
  await claims.write(name, text);
  return name;
}

async function captured(name: CheckpointName, ...names: string[]) {
  await backend.capture(captureRequest(name, ...names));
  return (await backend.whenReady(name)).parts;
}

const spec = { resources: { requests: { storage: "1Mi" } } };

async function cloned(name: CheckpointName, part: Awaited<ReturnType<typeof captured>>[number]): Promise<string> {
  const clone = `clone-${++number}`;
  await claims.create(clone, await backend.fillClaim?.({ name, part, spec }));
  return clone;
}

/** Lists the remains of a checkpoint: VolumeSnapshots, contents, and snapshots of the driver. */
async function leftOf({ checkpointId }: CheckpointName): Promise<string[]> {
  const shape = `ramet-${checkpointId}-`;
  const found = (await snapshots().list()).items.map(({ metadata }) => metadata.name);
  const bound = (await contents().list()).items.map(({ spec }) => spec.volumeSnapshotRef.name ?? "");
  return [...found, ...bound].filter((one) => one.startsWith(shape));
}

/** All data of the driver belongs to a content. */
async function orphansOfDriver(): Promise<string[]> {
  const known = (await contents().list()).items.map(({ status }) => status?.snapshotHandle);
  return readdirSync(join(cluster.driver.directory, "snapshots")).filter((id) => !known.includes(id));
}

async function expectNothingLeft(name: CheckpointName): Promise<void> {
  await expect.poll(() => leftOf(name)).toEqual([]);
  await expect.poll(orphansOfDriver).toEqual([]);
  await expect(backend.whenReady(name)).rejects.toMatchObject({ code: "CheckpointLost" });
}

async function expectRefused(code: string, message: RegExp, from: Backend, claim: string | string[]): Promise<void> {
  const name = newName();
  const error: unknown = await from.capture(captureRequest(name, ...[claim].flat())).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) as string });
  await expectNothingLeft(name);
}

/** The VolumeSnapshot of a claim, as soon as the capture has created it. */
async function created(name: CheckpointName, claim: string): Promise<Snapshot> {
  const at = { namespace, name: snapshotName(name, claim) };
  await expect.poll(() => snapshots().find(at)).toBeDefined();
  return snapshots().get(at);
}

const pause = (process_: "driver" | "snapshot-controller"): void => {
  process.kill(process_ === "driver" ? cluster.driver.process.pid : cluster.programs[process_].pid, "SIGSTOP");
};
const resume = (process_: "driver" | "snapshot-controller"): void => {
  process.kill(process_ === "driver" ? cluster.driver.process.pid : cluster.programs[process_].pid, "SIGCONT");
};
const making = (): string => join(cluster.driver.directory, "making");
const breakDriver = () => rename(making(), `${making()}.away`);
const mendDriver = () => rename(`${making()}.away`, making());

it("reports a cluster without VolumeSnapshots, and removes nothing there", async () => {
  const plane = await openControlPlane();
  const client = new KubeClient(plane.connection);
  try {
    const bare = csiBackend({ client });
    const { contents: offered, problem } = await bare.probe();
    expect(offered).toEqual([]);
    expect(problem).toMatchObject({ code: "NotSupported", hint: expect.stringContaining("SnapshotStack") as string });
    await expect(bare.whenReady(newName())).rejects.toMatchObject({ code: "CheckpointLost" });
    await bare.remove(newName());
  } finally {
    await client.close();
    await plane.stop();
  }
});

it("refuses a driver without a class, and one with several of which none is preferred", async () => {
  const claim = await newClaim("one");
  const classes = snapshotClassesIn(cluster.client);
  const { snapshotClasses } = volumeObjects();
  const retain = (name: string) => ({ ...snapshotClasses[1]!, metadata: { name } });
  for (const { metadata } of snapshotClasses) await classes.delete(metadata);
  try {
    await expectRefused("NotSupported", /has no VolumeSnapshotClass/, backend, claim);
    expect((await backend.probe()).problem).toMatchObject({ code: "NotSupported" });
    for (const name of ["one", "two"]) await classes.create(retain(name));
    await expectRefused("InvalidArgument", /several VolumeSnapshotClasses: one, two/, backend, claim);
  } finally {
    for (const name of ["one", "two"]) await classes.delete({ name });
    for (const manifest of snapshotClasses) await classes.create(manifest);
  }
});

it("refuses a claim that is not bound, missing, being deleted, or of no CSI driver, also together with a good one", async () => {
  const good = await newClaim("one");
  await claims.create("unbound", { storageClassName: "" });
  await expectRefused("Conflict", /unbound cannot be captured: it is not bound/, backend, [good, "unbound"]);
  await expectRefused("NotFound", /missing cannot be captured: it does not exist/, backend, [good, "missing"]);

  const leaving = await newClaim("one");
  await claimsIn(cluster.client).mergePatch(
    { namespace, name: leaving },
    { metadata: { finalizers: ["example.org/keep", "kubernetes.io/pvc-protection"] } },
  );
  await claimsIn(cluster.client).delete({ namespace, name: leaving });
  await expectRefused("NotSupported", /cannot be captured: it is being deleted/, backend, [good, leaving]);
  await claimsIn(cluster.client).mergePatch({ namespace, name: leaving }, { metadata: { finalizers: null } });

  await volumesIn(cluster.client).create({
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: "directory" },
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteOnce"],
      claimRef: { namespace, name: "on-disk" },
      hostPath: { path: "/nowhere" },
    },
  });
  await claims.create("on-disk", { storageClassName: "" });
  await claims.untilBound("on-disk");
  await expectRefused("NotSupported", /its PersistentVolume directory is of no CSI driver/, backend, [good, "on-disk"]);
});

it("never restores the content of another VolumeSnapshot", async () => {
  const theirs = newName();
  const claim = await newClaim("a secret");
  const [part] = await captured(theirs, claim);
  const original = await snapshots().get({ namespace, name: snapshotName(theirs, claim) });
  await makeNamespace(cluster.client, "attacker");
  const forged = { namespace: "attacker", checkpointId: theirs.checkpointId };
  const boundName = original.status?.boundVolumeSnapshotContentName ?? "";
  const { metadata } = await snapshots().create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshot",
    metadata: {
      namespace: "attacker",
      name: original.metadata.name,
      labels: { [labels.checkpointId]: theirs.checkpointId },
      annotations: original.metadata.annotations ?? {},
    },
    spec: { source: { volumeSnapshotContentName: boundName } },
  });
  pause("snapshot-controller");
  const status = {
    boundVolumeSnapshotContentName: boundName,
    creationTime: original.status?.creationTime,
    readyToUse: true,
    restoreSize: "1Gi",
  };
  await snapshots().mergePatch(metadata, { status }, { subresource: "status" });
  await expect(backend.whenReady(forged)).rejects.toMatchObject({ code: "CheckpointLost" });
  await expect(backend.fillClaim!({ name: forged, part: part!, spec })).rejects.toMatchObject({
    code: "CheckpointLost",
    message: expect.stringContaining("no content that belongs to it") as string,
  });
  resume("snapshot-controller");
  // Removing the forged one leaves the original alone.
  await backend.remove(forged);
  expect(await claims.read(await cloned(theirs, part!))).toBe("a secret");
});

it("fails when its VolumeSnapshot is deleted during the capture, and leaves nothing", async () => {
  const name = newName();
  const claim = await newClaim("one");
  pause("driver");
  const capture = backend.capture(captureRequest(name, claim)).catch((error: unknown) => error);
  const { metadata } = await created(name, claim);
  await expect.poll(() => contents().find({ name: `snapcontent-${metadata.uid}` })).toBeDefined();
  await snapshots().delete(metadata);
  resume("driver");
  expect(await capture).toMatchObject({
    code: "CheckpointLost",
    message: expect.stringContaining("deleted") as string,
  });
  expect(await snapshots().find(metadata)).toBeUndefined();
  // The sidecar may miss the deletion of a content whose creation it has just completed. A sweep makes it check again.
  const sweeping = csiBackend({ client: cluster.client, sweepOlderThanMilliseconds: -1_000 });
  const alive = () => Promise.resolve("finished" as const);
  await expect
    .poll(
      async () => {
        await sweeping.sweep!(alive, AbortSignal.timeout(10_000));
        return contents().find({ name: `snapcontent-${metadata.uid}` });
      },
      { timeout: 30_000 },
    )
    .toBeUndefined();
  await expectNothingLeft(name);
});

it("reports CheckpointLost when a VolumeSnapshot was deleted after the capture", async () => {
  const name = newName();
  const [a, b] = [await newClaim("one"), await newClaim("two")];
  const parts = await withoutGroupClass(cluster.client, () => captured(name, a, b));
  await snapshots().delete({ namespace, name: snapshotName(name, a) });
  await expect.poll(() => snapshots().find({ namespace, name: snapshotName(name, a) })).toBeUndefined();
  await expect(backend.whenReady(name)).rejects.toMatchObject({
    code: "CheckpointLost",
    message: expect.stringContaining("has 1 of its 2 VolumeSnapshots") as string,
  });
  const part = parts.find(({ volume }) => volume?.claim === a);
  await expect(backend.fillClaim!({ name, part: part!, spec })).rejects.toMatchObject({ code: "CheckpointLost" });
  await backend.remove(name);
});

it("refuses a StorageClass of another driver before the claim is created", async () => {
  const name = newName();
  const [part] = await captured(name, await newClaim("one"));
  await storageClassesIn(cluster.client).create({
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: "other" },
    provisioner: "other.example.org",
  });
  const filled = backend.fillClaim!({ name, part: part!, spec: { ...spec, storageClassName: "other" } });
  await expect(filled).rejects.toMatchObject({
    code: "NeedNotMet",
    message: expect.stringContaining(`other.example.org, and the volume was captured by ${driverName}`) as string,
  });
  await backend.remove(name);
  await expectNothingLeft(name);
});

it("completes the capture when the driver recovers from an error", async () => {
  const name = newName();
  const claim = await newClaim("one");
  await breakDriver();
  const capture = backend.capture(captureRequest(name, claim));
  await expect.poll(async () => (await created(name, claim)).status?.error?.message).toContain("ENOENT");
  await mendDriver();
  await capture;
  const { parts } = await backend.whenReady(name);
  expect(await claims.read(await cloned(name, parts[0]!))).toBe("one");
  await backend.remove(name);
});

it("reports that nothing takes the VolumeSnapshot, and leaves none", async () => {
  const hasty = csiBackend({ client: cluster.client, captureMilliseconds: 1_000 });
  const claim = await newClaim("one");
  pause("snapshot-controller");
  await expectRefused("VolumeNotCaptured", /not taken within 1 s; no error was reported/, hasty, claim);
});

it("continues a capture whose controllers ended, and finds the first VolumeSnapshot", async () => {
  const name = newName();
  const claim = await newClaim("one");
  const dying = new AbortController();
  pause("driver");
  const first = backend
    .capture({ ...captureRequest(name, claim), signal: dying.signal })
    .catch((error: unknown) => RametError.from(error).code);
  const { metadata } = await created(name, claim);
  dying.abort();
  expect(await first).toBe("Canceled");
  resume("driver");
  const second = csiBackend({ client: cluster.client });
  const { parts } = await second.capture(captureRequest(name, claim));
  expect(parts).toHaveLength(1);
  expect((await created(name, claim)).metadata.uid).toBe(metadata.uid);
  // A later attempt that fails keeps what this one has captured.
  await claims.create(`${claim}-late`, { storageClassName: "" });
  await expect(second.capture(captureRequest(name, claim, `${claim}-late`))).rejects.toMatchObject({
    code: "Conflict",
  });
  expect((await second.whenReady(name)).parts[0]?.handle).toBe(parts[0]?.handle);
  await second.remove(name);
  await expectNothingLeft(name);
});

it("completes a removal that ended after the content was told to delete its data", async () => {
  const name = newName();
  const claim = await newClaim("one");
  await captured(name, claim);
  const { status } = await created(name, claim);
  const content = { name: status?.boundVolumeSnapshotContentName ?? "" };
  expect((await contents().get(content)).spec.deletionPolicy).toBe("Retain");
  await contents().mergePatch(content, { spec: { deletionPolicy: "Delete" } });
  await backend.remove(name);
  await expectNothingLeft(name);
});

it("captures a claim that two sandboxes share for both at once", async () => {
  const names = [newName(), newName()];
  const claim = await newClaim("shared");
  const both = await Promise.all(names.map((name) => captured(name, claim)));
  await backend.remove(names[0]!);
  await expectNothingLeft(names[0]!);
  expect(await claims.read(await cloned(names[1]!, both[1]![0]!))).toBe("shared");
});

it("captures a clone of a clone after the checkpoints before it were removed", async () => {
  let claim = await newClaim("from the first");
  for (let generation = 0; generation < 3; generation++) {
    const name = newName();
    const [part] = await captured(name, claim);
    const clone = await cloned(name, part!);
    await claims.untilBound(clone);
    await backend.remove(name);
    await expectNothingLeft(name);
    await claims.delete(claim);
    claim = clone;
  }
  expect(await claims.read(claim)).toBe("from the first");
});

it("fills a clone's claim although the source is deleted meanwhile", async () => {
  const name = newName();
  const source = await newClaim("kept");
  const [part] = await captured(name, source);
  pause("driver");
  const clone = await cloned(name, part!);
  const deleted = claims.delete(source);
  resume("driver");
  await deleted;
  expect(await claims.read(clone)).toBe("kept");
  await backend.remove(name);
  await expectNothingLeft(name);
});

it("sweeps what belongs to no Checkpoint, and leaves everything else alone", async () => {
  const sweeping = csiBackend({ client: cluster.client, sweepOlderThanMilliseconds: -1_000 });
  const claim = await newClaim("one");
  const [kept, lost, abandoned] = [newName(), newName(), newName()];
  for (const name of [kept, lost, abandoned]) await captured(name, claim);
  // Somebody deletes a VolumeSnapshot, and its content keeps the data.
  await snapshots().delete({ namespace, name: snapshotName(abandoned, claim) });
  await expect.poll(() => snapshots().find({ namespace, name: snapshotName(abandoned, claim) })).toBeUndefined();
  expect(await leftOf(abandoned)).toHaveLength(1);
  // A VolumeSnapshot of a user, with the label and the name of one of Ramet's.
  const { metadata } = await snapshots().create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshot",
    metadata: { namespace, name: "ramet-user-0123456789", labels: { [labels.checkpointId]: "user" } },
    spec: { source: { persistentVolumeClaimName: claim } },
  });
  await contents().create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshotContent",
    metadata: { name: "imported" },
    spec: {
      deletionPolicy: "Retain",
      driver: driverName,
      source: { snapshotHandle: "snap-of-another-cluster" },
      volumeSnapshotRef: { namespace, name: "ramet-imported-0123456789" },
    },
  });
  const asked: string[] = [];
  const liveness = ({ checkpointId }: CheckpointName) => {
    asked.push(checkpointId);
    return Promise.resolve(checkpointId === kept.checkpointId ? ("finished" as const) : ("absent" as const));
  };
  const { signal } = new AbortController();
  const young = await backend.sweep!(liveness, signal);
  expect([young.checkpoints, young.orphans, asked]).toEqual([[], 0, []]);
  const swept = await sweeping.sweep!(liveness, signal);
  expect(swept.checkpoints).toContainEqual(lost);
  expect(swept.kept).toEqual([kept]);
  // Other tests have left some too.
  expect(swept.orphans).toBeGreaterThanOrEqual(1);
  expect(swept.freedBytes).toBeGreaterThan(0);
  expect(asked).not.toContain("user");
  for (const name of [lost, abandoned]) await expectNothingLeft(name);
  expect((await backend.whenReady(kept)).parts).toHaveLength(1);
  expect(await snapshots().find(metadata)).toBeDefined();
  expect(await contents().find({ name: "imported" })).toBeDefined();
  const failing = sweeping.sweep!(
    () => Promise.reject(new RametError("Unavailable", "the API server stopped")),
    signal,
  );
  await expect(failing).rejects.toMatchObject({ code: "Unavailable" });
  expect((await backend.whenReady(kept)).parts).toHaveLength(1);
});
