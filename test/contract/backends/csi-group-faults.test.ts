import { readdirSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import type { CheckpointPart } from "../../../src/api/kinds/checkpoint.ts";
import { groupLabel } from "../../../src/api/names/labels.ts";
import type { Backend, CheckpointName } from "../../../src/backends/backend.ts";
import { csiBackend } from "../../../src/backends/csi/csi-backend.ts";
import { groupName } from "../../../src/backends/csi/groups/find-groups.ts";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import { RametError } from "../../../src/base/errors.ts";
import { driverName } from "../../../src/local/csi/unary.ts";
import { KubeClient } from "../../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../../src/kube/kubeconfig.ts";
import {
  snapshotContentsIn,
  snapshotsIn,
  type GroupKinds,
  groupKindsOf,
  type GroupSnapshot,
} from "../../../src/kube/volumes/snapshots.ts";
import { claimsIn } from "../../../src/kube/volumes/volumes.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import type { SnapshotProgramName } from "../../../src/local/volumes/snapshot-programs.ts";
import { withoutGroupClass } from "../../setup/group-class.ts";
import { ManualClock } from "../../setup/manual-clock.ts";
import { makeNamespace } from "../../setup/namespace.ts";
import { VolumeClaims } from "../../setup/volume-claims.ts";
import { startVolumeCluster, type VolumeCluster } from "../../setup/volume-cluster.ts";

const namespace = "groups";
let cluster: VolumeCluster;
let claims: VolumeClaims;
let backend: Backend;
let kinds: GroupKinds;
let number = 0;

beforeAll(async () => {
  cluster = await startVolumeCluster();
  await makeNamespace(cluster.client, namespace);
  claims = new VolumeClaims(cluster, namespace);
  backend = csiBackend({ client: cluster.client });
  kinds = (await groupKindsOf(cluster.client))!;
});
afterAll(() => cluster.stop());
afterEach(async () => {
  for (const one of readdirSync(cluster.driver.directory))
    if (one.endsWith(".away")) await rename(directory(one), directory(one.replace(".away", "")));
  for (const { pid } of [cluster.driver.process, ...Object.values(cluster.programs)]) process.kill(pid, "SIGCONT");
});

const newName = (): CheckpointName => ({ namespace, checkpointId: `g-${++number}` });

async function newClaims(...texts: string[]): Promise<string[]> {
  const names: string[] = [];
  for (const text of texts) {
    const name = `claim-${++number}`;
    await claims.create(name);
    await claims.write(name, text);
    names.push(name);
  }
  return names;
}

const requestOf = (name: CheckpointName, names: readonly string[]) => ({
  name,
  source: {
    namespace,
    name: names[0] ?? "",
    uid: `uid-${++number}`,
    podIp: "",
    claims: names.map((claim) => ({ volume: claim, claim })),
  },
  contents: ["volumes" as const],
  keepRunning: true,
});
const groupAt = (name: CheckpointName) => ({ namespace, name: groupName(name, driverName) });
const groupsOf = (parts: readonly CheckpointPart[]) => [...new Set(parts.map(({ volume }) => volume?.groupSnapshot))];
const pause = (program: SnapshotProgramName | "driver"): void => {
  process.kill(program === "driver" ? cluster.driver.process.pid : cluster.programs[program].pid, "SIGSTOP");
};
const resume = (program: SnapshotProgramName | "driver"): void => {
  process.kill(program === "driver" ? cluster.driver.process.pid : cluster.programs[program].pid, "SIGCONT");
};
const directory = (name: string): string => join(cluster.driver.directory, name);

async function created(name: CheckpointName): Promise<GroupSnapshot> {
  await expect.poll(() => kinds.groups.find(groupAt(name))).toBeDefined();
  return kinds.groups.get(groupAt(name));
}

async function readClones(name: CheckpointName, parts: readonly CheckpointPart[]): Promise<string[]> {
  const spec = { resources: { requests: { storage: "1Mi" } } };
  return Promise.all(
    parts.map(async (part) => {
      const clone = `clone-${++number}`;
      await claims.create(clone, await backend.fillClaim?.({ name, part, spec }));
      return claims.read(clone);
    }),
  );
}

async function labelled({ checkpointId }: CheckpointName): Promise<string[]> {
  const { items } = await claimsIn(cluster.client).list({ namespace, labelSelector: groupLabel(checkpointId) });
  return items.map(({ metadata }) => metadata.name);
}

/** Every object of the snapshot kinds, and every snapshot of the driver. */
async function everything(): Promise<string[]> {
  const lists = await Promise.all([
    kinds.groups.list(),
    kinds.contents.list(),
    snapshotsIn(cluster.client).list(),
    snapshotContentsIn(cluster.client).list(),
  ]);
  const objects = lists.flatMap(({ items }) => items.map(({ metadata }) => metadata.name));
  return [...objects, ...readdirSync(directory("snapshots")), ...readdirSync(directory("groups"))];
}

async function expectNothingLeft(name: CheckpointName): Promise<void> {
  // The sidecar repeats a deletion that has failed after longer and longer pauses.
  await expect.poll(everything, { timeout: 90_000 }).toEqual([]);
  expect(await labelled(name)).toEqual([]);
  await expect(backend.whenReady(name)).rejects.toMatchObject({ code: "CheckpointLost" });
}

/** The sidecar may miss the deletion of a content that it has just completed. A repeat makes it check again. */
async function untilRemoved(name: CheckpointName): Promise<void> {
  await expect.poll(() => backend.remove(name).then(() => "removed", String), { timeout: 60_000 }).toBe("removed");
}

/** Captures two volumes one by one, and reports why. */
async function expectOneByOne(note: RegExp, from: Backend = backend): Promise<void> {
  const name = newName();
  const { parts, details } = await from.capture(requestOf(name, await newClaims("one", "two")));
  expect(details?.groupNote).toMatch(note);
  expect(groupsOf(parts)).toEqual([undefined]);
  expect(await labelled(name)).toEqual([]);
  expect((await from.whenReady(name)).parts.map(({ handle }) => handle).sort()).toEqual(
    parts.map(({ handle }) => handle).sort(),
  );
  expect((await readClones(name, parts)).sort()).toEqual(["one", "two"]);
  // A repeated capture finds what the first one created, and reports the same.
  expect(
    (
      await from.capture(
        requestOf(
          name,
          parts.map(({ volume }) => volume!.claim),
        ),
      )
    ).details?.groupNote,
  ).toMatch(note);
  await from.remove(name);
  await expectNothingLeft(name);
}

it("removes a group with its data, which deleting its objects does not", async () => {
  const name = newName();
  const { parts } = await backend.capture(requestOf(name, await newClaims("one", "two")));
  expect(groupsOf(parts)).toEqual([groupName(name, driverName)]);
  expect(await labelled(name)).toEqual([]);
  expect((await readClones(name, parts)).sort()).toEqual(["one", "two"]);
  await backend.remove(name);
  await expectNothingLeft(name);
});

it("captures volumes one by one if the driver has no VolumeGroupSnapshotClass", async () => {
  await withoutGroupClass(cluster.client, () => expectOneByOne(/the driver has no VolumeGroupSnapshotClass/));
});

it("captures volumes one by one if the sidecar does not take groups, and does not wait for it again", async () => {
  await cluster.restart("csi-snapshotter", ["--feature-gates=CSIVolumeGroupSnapshot=false"]);
  try {
    const hasty = csiBackend({ client: cluster.client, beginMilliseconds: 2_000 });
    await expectOneByOne(/the csi-snapshotter of the driver did not begin within 2 s/, hasty);
    const name = newName();
    const { details } = await hasty.capture(requestOf(name, await newClaims("one", "two")));
    expect(details?.groupNote).toMatch(/did not begin within 2 s/);
    expect(await kinds.groups.find(groupAt(name))).toBeUndefined();
    await hasty.remove(name);
    await expectNothingLeft(name);
  } finally {
    await cluster.restart("csi-snapshotter");
  }
});

it("captures volumes one by one if the snapshot-controller does not take groups", async () => {
  await cluster.restart("snapshot-controller", ["--feature-gates=CSIVolumeGroupSnapshot=false"]);
  try {
    const hasty = csiBackend({ client: cluster.client, beginMilliseconds: 2_000 });
    await expectOneByOne(/the snapshot-controller did not begin within 2 s/, hasty);
  } finally {
    await cluster.restart("snapshot-controller");
  }
});

it("captures volumes one by one if the driver refuses the group", async () => {
  const name = newName();
  const names = await newClaims("one", "two");
  // The local driver refuses no group, so this writes what the sidecar would write.
  pause("csi-snapshotter");
  const capture = backend.capture(requestOf(name, names));
  const { metadata } = await created(name);
  const content = { name: `groupsnapcontent-${metadata.uid}` };
  await expect.poll(() => kinds.contents.find(content)).toBeDefined();
  const error = { message: "rpc error: code = FailedPrecondition desc = the volumes are in two places" };
  await kinds.contents.mergePatch(content, { status: { readyToUse: false, error } }, { subresource: "status" });
  await expect.poll(async () => (await kinds.groups.find(groupAt(name)))?.metadata.deletionTimestamp).toBeDefined();
  resume("csi-snapshotter");
  const { parts, details } = await capture;
  expect(details?.groupNote).toContain("the volumes are in two places");
  expect(groupsOf(parts)).toEqual([undefined]);
  await untilRemoved(name);
  await expectNothingLeft(name);
});

it("completes a group when the driver recovers from an error", async () => {
  const name = newName();
  const names = await newClaims("one", "two");
  await rename(directory("making"), directory("making.away"));
  const capture = backend.capture(requestOf(name, names));
  await expect.poll(async () => (await created(name)).status?.error?.message).toContain("ENOENT");
  await rename(directory("making.away"), directory("making"));
  const { parts } = await capture;
  expect(groupsOf(parts)).toEqual([groupName(name, driverName)]);
  await backend.remove(name);
  await expectNothingLeft(name);
});

it("leaves nothing when the driver does not recover", async () => {
  const name = newName();
  const { client, passes, ...times } = await shortAfterBegin();
  const names = await newClaims("one", "two");
  await rename(directory("making"), directory("making.away"));
  const capture = csiBackend({ client, ...times })
    .capture(requestOf(name, names))
    .catch((error: unknown) => error);
  await expect.poll(async () => (await created(name)).status?.error?.message).toContain("ENOENT");
  passes();
  expect(await capture).toMatchObject({
    code: "VolumeNotCaptured",
    message: expect.stringContaining("ENOENT") as string,
  });
  await rename(directory("making.away"), directory("making"));
  await expectNothingLeft(name);
  await client.close();
});

/** Lets a capture end a second after the test has called `passes`, because a busy driver reports its error late. */
async function shortAfterBegin() {
  const beginMilliseconds = 3_600_000;
  const begins = new ManualClock();
  const schedule: Clock["schedule"] = (milliseconds, run) =>
    (milliseconds === beginMilliseconds ? begins : systemClock).schedule(milliseconds, run);
  const connection = await connectionFromKubeconfig({ path: cluster.kubeconfigPath });
  return {
    client: new KubeClient(connection, { clock: { ...systemClock, schedule } }),
    beginMilliseconds,
    captureMilliseconds: beginMilliseconds + 1_000,
    passes: () => {
      begins.advance(beginMilliseconds);
    },
  };
}

it("continues a capture whose controllers ended, and finds the first group", async () => {
  const name = newName();
  const names = await newClaims("one", "two");
  const dying = new AbortController();
  pause("driver");
  const first = backend
    .capture({ ...requestOf(name, names), signal: dying.signal })
    .catch((error: unknown) => RametError.from(error).code);
  const { metadata } = await created(name);
  dying.abort();
  expect(await first).toBe("Canceled");
  expect((await labelled(name)).sort()).toEqual([...names].sort());
  resume("driver");
  const second = csiBackend({ client: cluster.client });
  const { parts } = await second.capture(requestOf(name, names));
  expect((await created(name)).metadata.uid).toBe(metadata.uid);
  expect(groupsOf(parts)).toEqual([metadata.name]);
  expect(await labelled(name)).toEqual([]);
  // Also if the sandbox is gone.
  expect((await csiBackend({ client: cluster.client }).whenReady(name)).parts).toHaveLength(2);
  await second.remove(name);
  await expectNothingLeft(name);
});

it("continues a removal that the driver made fail", async () => {
  const name = newName();
  await backend.capture(requestOf(name, await newClaims("one", "two")));
  await rename(directory("removing"), directory("removing.away"));
  await expect(backend.remove(name)).rejects.toMatchObject({ code: "Unavailable", retryable: true });
  await rename(directory("removing.away"), directory("removing"));
  await untilRemoved(name);
  await expectNothingLeft(name);
});

it("keeps the data when a user deletes a member or the group, until it is swept", async () => {
  const [kept, lost] = [newName(), newName()];
  const names = await newClaims("one", "two");
  const { parts } = await backend.capture(requestOf(kept, names));
  const lostParts = (await backend.capture(requestOf(lost, names))).parts;
  const before = readdirSync(directory("snapshots")).length;
  await snapshotsIn(cluster.client).delete({ namespace, name: parts[0]!.volume!.snapshot });
  await expect(backend.whenReady(kept)).rejects.toMatchObject({ code: "CheckpointLost" });
  await kinds.groups.delete(groupAt(lost));
  await expect.poll(() => kinds.groups.find(groupAt(lost))).toBeUndefined();
  // The snapshot-controller deletes the members a moment after their group.
  for (const { volume } of lostParts)
    await expect.poll(() => snapshotsIn(cluster.client).find({ namespace, name: volume!.snapshot })).toBeUndefined();
  await expect(backend.whenReady(lost)).rejects.toMatchObject({ code: "CheckpointLost" });
  expect(readdirSync(directory("snapshots"))).toHaveLength(before);
  // A label that an interrupted capture has left.
  const labels = { [groupLabel(lost.checkpointId)]: "x" };
  await claimsIn(cluster.client).mergePatch({ namespace, name: names[0]! }, { metadata: { labels } });
  const sweeping = csiBackend({ client: cluster.client, sweepOlderThanMilliseconds: -1_000 });
  const { signal } = new AbortController();
  await backend.sweep!(() => Promise.resolve("absent"), signal);
  expect(readdirSync(directory("snapshots"))).toHaveLength(before);
  await sweeping.sweep!(() => Promise.resolve("finished"), signal);
  expect(readdirSync(directory("snapshots"))).toHaveLength(before);
  expect(await labelled(lost)).toEqual([]);
  const swept = await sweeping.sweep!(() => Promise.resolve("absent"), signal);
  expect(swept.checkpoints).toContainEqual(kept);
  expect(swept.orphans).toBeGreaterThanOrEqual(1);
  for (const name of [kept, lost]) await expectNothingLeft(name);
});

it("does not import a member of a group, which would be deleted with it", async () => {
  const name = newName();
  const { parts } = await backend.capture(requestOf(name, await newClaims("one", "two")));
  const { handle = "", sizeBytes } = parts[0] ?? {};
  const volume = { volume: "data", driver: driverName, snapshotHandle: handle, sizeBytes };
  const imported = backend.importVolumes!({ name: newName(), volumes: [volume], takesOwnership: true });
  await expect(imported).rejects.toMatchObject({
    code: "VolumeNotImported",
    message: expect.stringMatching(/it is a member of the group group-\w+, and would be deleted with it$/) as string,
  });
  await expect.poll(async () => (await snapshotContentsIn(cluster.client).list()).items).toHaveLength(2);
  expect((await readClones(name, parts)).sort()).toEqual(["one", "two"]);
  await untilRemoved(name);
  await expectNothingLeft(name);
});

it("keeps the data of a group while a content of somebody else has that of a member", async () => {
  const name = newName();
  const { parts } = await backend.capture(requestOf(name, await newClaims("one", "two")));
  const foreign = snapshotContentsIn(cluster.client);
  const { metadata } = await foreign.create({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshotContent",
    metadata: { name: "of-somebody-else" },
    spec: {
      driver: driverName,
      deletionPolicy: "Retain",
      source: { snapshotHandle: parts[0]?.handle },
      volumeSnapshotRef: { namespace, name: "not-there" },
    },
  });
  await untilRemoved(name);
  const objects = () => everything().then((all) => all.filter((one) => !/^(snap|group)-[0-9a-f]{40}$/.test(one)));
  await expect.poll(objects).toEqual(["of-somebody-else"]);
  expect(readdirSync(directory("snapshots"))).toHaveLength(2);
  await foreign.delete(metadata);
  await expect.poll(objects).toEqual([]);
  // The driver would refuse to delete a member, so nobody else removes it.
  for (const kind of ["snapshots", "groups"]) {
    for (const kept of readdirSync(directory(kind))) await rm(join(directory(kind), kept), { recursive: true });
  }
});

it("leaves a group alone that is not of this checkpoint", async () => {
  const name = newName();
  const names = await newClaims("one", "two");
  const { metadata } = await kinds.groups.create({
    apiVersion: kinds.apiVersion,
    kind: "VolumeGroupSnapshot",
    metadata: groupAt(name),
    spec: { source: { selector: { matchLabels: { nobody: "has-it" } } } },
  });
  await expect(backend.capture(requestOf(name, names))).rejects.toMatchObject({ code: "AlreadyExists" });
  expect((await kinds.groups.find(metadata))?.metadata.uid).toBe(metadata.uid);
  await kinds.groups.delete(metadata);
  await expectNothingLeft(name);
});

it("captures volumes one by one in a cluster without the CRDs of groups", async () => {
  const crds = cluster.client.resource(coreResources.crds);
  const { items } = await crds.list();
  for (const { metadata } of items)
    if (metadata.name.endsWith(".groupsnapshot.storage.k8s.io")) await crds.delete(metadata);
  await expect.poll(() => groupKindsOf(cluster.client)).toBeUndefined();
  const name = newName();
  const { parts, details } = await backend.capture(requestOf(name, await newClaims("one", "two")));
  expect(details?.groupNote).toBe("the cluster has no VolumeGroupSnapshots");
  expect((await readClones(name, parts)).sort()).toEqual(["one", "two"]);
  await backend.remove(name);
  await expect(backend.whenReady(name)).rejects.toMatchObject({ code: "CheckpointLost" });
});
