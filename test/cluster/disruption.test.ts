import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { delay, systemClock } from "../../src/base/clock.ts";
import { unlessCode } from "../../src/base/errors.ts";
import { localNodeLabels } from "../../src/api/names/system-names.ts";
import { guestClientPort } from "../../src/api/wire/cell-api.ts";
import { clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { containerUser, GuestClient } from "../../src/cell/client/guest-client.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { counterScript } from "../setup/counter.ts";
import { count, counterTemplate } from "./counter.ts";
import { Evictions, podUID } from "./evictions.ts";
import { realNode } from "./controllers-real-node.ts";
import { localNodeName } from "../../src/local/node/node-object.ts";
import { nodeObjects } from "./node-objects.ts";

/** Tests with real cells and real gVisor that a sandbox survives the end of its Pod. */
let cluster: Cluster;

beforeAll(async () => {
  // The eviction API reads PodDisruptionBudgets.
  cluster = await openCluster({ startNode: realNode(), allApis: true });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

const evictions = new Evictions(() => cluster);
const create = evictions.create.bind(evictions);
const evict = evictions.evict.bind(evictions);
const continued = evictions.continued.bind(evictions);

const disruptionOf = ({ status }: Sandbox) => status?.ramet?.disruption;

/** Whether the Pod ends while a cell would still hold it: that lasts until two seconds before the end of the grace period. */
async function endsWithoutHold(name: string): Promise<boolean> {
  const { metadata } = await cluster.pod(`t/${name}`, (pod) => pod.metadata.deletionTimestamp !== undefined);
  await cluster.untilDeleted("pods", `t/${name}`);
  return Date.now() < Date.parse(metadata.deletionTimestamp ?? "") - 5_000;
}

/** Files of a sandbox, with the access token that it had from the beginning. */
async function withGuest<T>(sandbox: Sandbox, use: (guest: GuestClient) => Promise<T>): Promise<T> {
  const credentials = await clusterCredentials(cluster.client);
  const cells = new CellClient(credentials.key);
  const address = { ip: sandbox.status?.sandboxIp ?? "", sandboxUid: sandbox.metadata.uid };
  const accessToken = credentials.guestToken(sandbox.metadata.uid);
  try {
    return await use(
      new GuestClient({ dial: () => cells.dial(address, guestClientPort), accessToken, user: containerUser }),
    );
  } finally {
    cells.close();
  }
}

it("continues a sandbox whose Pod is evicted, with its memory, its files and its identity", async () => {
  const before = await create("a");
  expect([await count(cluster, "a"), await count(cluster, "a")]).toEqual([1, 2]);
  await withGuest(before, (guest) => guest.writeFile("/tmp/kept", Buffer.from("kept")));
  const pod = await cluster.pod("t/a", () => true);
  expect(pod.metadata.annotations).toMatchObject({
    [annotations.onDisruption]: "Migrate",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
  });
  expect(pod.spec.terminationGracePeriodSeconds).toBe(30);

  await evict("a");
  const after = await continued(before);
  expect(after.metadata.uid).toBe(before.metadata.uid);
  expect(after.status?.ramet?.disruption).toMatchObject({
    cause: "Evicted",
    outcome: "Migrated",
    podUID: podUID(before),
  });
  expect(await count(cluster, "a")).toBe(3);
  expect(await withGuest(after, async (guest) => text(await guest.readFile("/tmp/kept")))).toBe("kept");
});

it("continues a sandbox again and again when its Pods are deleted", async () => {
  let before = await cluster.sandbox("t/a", ({ status }) => status?.phase === "Running");
  for (const next of [4, 5]) {
    await cluster.seen.pods.resource.delete({ namespace: "t", name: "a" });
    // A second deletion changes nothing.
    await cluster.seen.pods.resource.delete({ namespace: "t", name: "a" });
    before = await continued(before);
    expect(before.status?.ramet?.disruption).toMatchObject({ cause: "PodDeleted", outcome: "Migrated" });
    expect(await count(cluster, "a")).toBe(next);
  }
});

it("pauses a sandbox with the policy Pause until it is resumed", async () => {
  const before = await create("b", "Pause");
  expect(await count(cluster, "b")).toBe(1);
  await evict("b");
  const paused = await cluster.sandbox(
    "t/b",
    ({ status }) => findCondition(status?.conditions, "SandboxPaused")?.status === "True",
  );
  expect(paused.spec.paused).toBe(true);
  expect(paused.status).toMatchObject({
    phase: "Paused",
    ramet: { disruption: { cause: "Evicted", outcome: "Paused" } },
  });
  await cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name: "b" }, { spec: { paused: false } });
  await continued(before);
  expect(await count(cluster, "b")).toBe(2);
});

it("ends a sandbox with the policy End immediately", async () => {
  await create("c", "End");
  expect((await cluster.pod("t/c", () => true)).spec.terminationGracePeriodSeconds).toBe(1);
  await cluster.seen.pods.resource.delete({ namespace: "t", name: "c" });
  const { status } = await cluster.sandbox("t/c", (now) => now.status?.phase === "Failed");
  expect(status?.ramet?.disruption).toMatchObject({ cause: "PodDeleted", outcome: "Lost" });
  await cluster.untilDeleted("pods", "t/c");
});

it("continues a sandbox whose Pod was deleted while no controllers ran", async () => {
  const before = await create("d");
  expect(await count(cluster, "d")).toBe(1);
  await cluster.stopControllers();
  await cluster.seen.pods.resource.delete({ namespace: "t", name: "d" });
  // The sandbox responds in the meantime.
  expect(await count(cluster, "d")).toBe(2);
  await cluster.startControllers();
  await continued(before);
  expect(await count(cluster, "d")).toBe(3);
});

it("continues a sandbox if the controllers are killed during the capture", async () => {
  const before = await create("e");
  expect(await count(cluster, "e")).toBe(1);
  await evict("e");
  await cluster.sandbox("t/e", ({ status }) => status?.ramet?.disruption !== undefined);
  await cluster.restartControllers();
  await continued(before);
  expect(await count(cluster, "e")).toBe(2);
});

it("moves a sandbox before its Pod is ended, with its memory, and completes that without the mark and after a restart", async () => {
  const nodes = nodeObjects(() => cluster.client);
  const before = await create("j");
  expect(await count(cluster, "j")).toBe(1);
  // The other node is an object. The local node, which knows no taints, runs the next Pod too.
  await nodes.add("other", { labels: localNodeLabels });
  await nodes.taint(localNodeName, "karpenter.sh/disrupted");
  await cluster.sandbox("t/j", ({ status }) => status?.ramet?.disruption?.outcome === "Migrating");
  await nodes.taint(localNodeName);
  await cluster.restartControllers();
  const after = await continued(before);
  expect(after.metadata.uid).toBe(before.metadata.uid);
  expect(after.status?.ramet?.disruption).toMatchObject({ cause: "NodeLeaving", outcome: "Migrated" });
  expect(await count(cluster, "j")).toBe(2);
  await nodes.remove("other");
});

it("completes a checkpoint or a fork that is being made, and then continues the sandbox", async () => {
  const before = await create("h");
  expect(await count(cluster, "h")).toBe(1);
  const apiVersion = "agents.kruise.io/v1alpha1";
  const metadata = { name: "h-1", namespace: "t" };
  await cluster.create({ apiVersion, kind: "Checkpoint", metadata, spec: { sandboxName: "h" } });
  const { status: begun } = await cluster.checkpoint("t/h-1", ({ status }) => status?.checkpointId !== undefined);
  // A fork creates its clones while its checkpoint is being taken.
  const annotations = { "ramet.dev/restore-from": begun?.checkpointId ?? "" };
  const clone = { name: "h-fork", namespace: "t", annotations };
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: clone, spec: { template: counterTemplate } });
  await evict("h");
  await cluster.checkpoint("t/h-1", ({ status }) => status?.phase === "Succeeded");
  await continued(before);
  expect([await count(cluster, "h"), await count(cluster, "h-fork")]).toEqual([2, 2]);
});

/** Its memory and its files change all the time. */
const writing = `
import os, threading
def write():
    kept = [b""] * 32
    for turn in range(1 << 40):
        kept[turn % 32] = os.urandom(1 << 20)
        with open("/root/%d" % (turn % 32), "wb") as file: file.write(kept[turn % 32])
threading.Thread(target=write, daemon=True).start()
`;

it("continues sandboxes that are evicted while they write at full speed, resume, or start from a checkpoint", async () => {
  const [container] = counterTemplate.spec.containers;
  const command = ["python3", "-c", writing + counterScript];
  const template = { spec: { ...counterTemplate.spec, containers: [{ ...container, command }] } };
  const [busy, resumed] = await Promise.all([create("busy", undefined, { template }), create("resumed")]);
  expect([await count(cluster, "busy"), await count(cluster, "resumed")]).toEqual([1, 1]);
  const pause = (paused: boolean) =>
    cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name: "resumed" }, { spec: { paused } });
  await pause(true);
  await cluster.sandbox("t/resumed", ({ status }) => status?.phase === "Paused");
  await pause(false);
  const { checkpointId = "" } = (await cluster.checkpoint("t/h-1", () => true)).status ?? {};
  const metadata = { name: "clone", namespace: "t", annotations: { "ramet.dev/restore-from": checkpointId } };
  await cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata,
    spec: { template: counterTemplate },
  });
  const evictFirst = async (name: string, former?: string) => {
    await cluster.pod(
      `t/${name}`,
      (pod) => pod.metadata.uid !== former && pod.metadata.deletionTimestamp === undefined,
    );
    await evict(name);
  };
  await Promise.all([evict("busy"), evictFirst("resumed", podUID(resumed)), evictFirst("clone")]);
  await continued(busy);
  expect([await count(cluster, "busy"), await count(cluster, "resumed"), await count(cluster, "clone")]).toEqual([
    2, 2, 2,
  ]);
});

it("captures immediately with a long grace period, and reports what a short one has lost", async () => {
  const template = { spec: { ...counterTemplate.spec, terminationGracePeriodSeconds: 3_600 } };
  const [patient] = await Promise.all([create("patient", undefined, { template }), create("short"), create("forced")]);
  expect(await count(cluster, "patient")).toBe(1);
  await evict("patient");
  const end = (name: string, gracePeriodSeconds: number) =>
    cluster.seen.pods.resource.delete({ namespace: "t", name }, { gracePeriodSeconds });
  await Promise.all([end("short", 1), end("forced", 0)]);
  await continued(patient);
  expect(await count(cluster, "patient")).toBe(2);
  const outcome = ({ status }: Sandbox) => status?.ramet?.disruption?.outcome;
  const forced = await cluster.sandbox("t/forced", ({ status }) => status?.phase === "Failed");
  expect(forced.status?.ramet?.disruption).toMatchObject({ cause: "PodDeleted", outcome: "Lost" });
  expect(findCondition(forced.status?.conditions, "Ready")).toMatchObject({ reason: "SandboxLost" });
  await cluster.sandbox("t/short", (one) => outcome(one) === "Lost" || outcome(one) === "Migrated");
});

it("does what its namespace says, and names an annotation that is invalid", async () => {
  const namespace = { name: "t" };
  const { resource } = cluster.seen.namespaces;
  const annotate = (policy: string | null) =>
    resource.mergePatch(namespace, { metadata: { annotations: { [annotations.onDisruption]: policy } } });
  await annotate("Stay");
  const created = create("i");
  await cluster.sandbox("t/i", ({ status }) =>
    (status?.message ?? "").includes(
      `The annotation ${annotations.onDisruption} of the namespace t: "Stay" is not Migrate, Pause or End`,
    ),
  );
  await annotate("Pause");
  await created;
  const { metadata } = await cluster.pod("t/i", () => true);
  expect(metadata.annotations).toMatchObject({ [annotations.onDisruption]: "Pause" });
  await annotate(null);
});

it("reports why the state could not be saved if the store is damaged until the end of the grace period", async () => {
  await create("f");
  const away = `${cluster.storePath}-away`;
  renameSync(cluster.storePath, away);
  writeFileSync(cluster.storePath, "");
  try {
    await evict("f", 12);
    const { status } = await cluster.sandbox("t/f", (now) => now.status?.phase === "Failed");
    expect(status?.ramet?.disruption).toMatchObject({ cause: "Evicted", outcome: "Lost" });
    expect(findCondition(status?.conditions, "Ready")).toMatchObject({ reason: "SandboxLost" });
    expect(status?.message).toMatch(
      /its state could not be saved: the checkpoint f-pause-\w+ failed: .*not a directory/,
    );
  } finally {
    renameSync(cluster.storePath, `${cluster.storePath}-file`);
    renameSync(away, cluster.storePath);
  }
});

it.skipIf(process.getuid?.() !== 0)(
  "continues a sandbox that is evicted while the store is full, once there is room",
  async () => {
    const namespaceStore = join(cluster.storePath, "t");
    const mount = (...args: string[]) => execFileSync("mount", [...args, namespaceStore]);
    mkdirSync(namespaceStore, { recursive: true, mode: 0o700 });
    // Its cell, which has a mount namespace, sees this file system and its size.
    mount("-t", "tmpfs", "-o", "size=1g,mode=700", "ramet-test");
    try {
      const before = await create("full");
      expect(await count(cluster, "full")).toBe(1);
      mount("-o", "remount,size=1m");
      await evict("full");
      const repeated = await cluster.sandbox("t/full", (now) => disruptionOf(now)?.problem !== undefined);
      expect(disruptionOf(repeated)).toMatchObject({ outcome: "Migrating", problem: { code: "StoreFull" } });
      mount("-o", "remount,size=1g");
      const after = await continued(before);
      expect(disruptionOf(after)).toMatchObject({ cause: "Evicted", outcome: "Migrated" });
      expect(await count(cluster, "full")).toBe(2);
      await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "full" });
      await cluster.untilDeleted("sandboxes", "t/full");
    } finally {
      execFileSync("umount", ["--lazy", namespaceStore]);
    }
  },
);

it("saves every sandbox of a set that is claimed at the moment when its Pod is deleted", async () => {
  const metadata = { name: "stock", namespace: "t" };
  const spec = { replicas: 8, template: { spec: { ...counterTemplate.spec, terminationGracePeriodSeconds: 30 } } };
  await cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", metadata, spec });
  const ready = () => cluster.seen.sets.store.get("t/stock")?.status?.availableReplicas;
  await expect.poll(ready, { timeout: 120_000 }).toBe(8);
  const members = cluster.seen.sandboxes.store
    .list()
    .filter(({ metadata: { ownerReferences } }) => ownerReferences?.[0]?.name === "stock");
  const claim = async ({ metadata: { name } }: Sandbox) => {
    const { status, metadata } = await cluster.seen.sandboxes.resource.get({ name, namespace: "t" });
    if (status?.phase !== "Running") return false;
    const { uid, resourceVersion } = metadata;
    const claimed = { labels: { [labels.sandboxClaimed]: "true" }, annotations: { [annotations.lock]: name } };
    const patch = { metadata: { uid, resourceVersion, ...claimed } };
    const made = cluster.seen.sandboxes.resource.mergePatch({ name, namespace: "t" }, patch);
    return (await made.catch(unlessCode("Conflict"))) !== undefined;
  };
  // The Pod of the first one is deleted some moments before the claim, that of the last one some moments after it.
  const outcomes = members.map(async (member, at) => {
    const { name } = member.metadata;
    const [isClaimed] = await Promise.all([
      delay(systemClock, Math.max(0, 8 - 4 * at)).then(() => claim(member)),
      delay(systemClock, Math.max(0, 4 * at - 8)).then(() =>
        cluster.seen.pods.resource.delete({ name, namespace: "t" }),
      ),
    ]);
    if (isClaimed) await continued(member);
    return isClaimed;
  });
  expect(await Promise.all(outcomes)).toContain(true);
  await cluster.seen.sets.resource.delete(metadata);
});

it("does not hold the end of a sandbox that is deleted", async () => {
  await create("g");
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name: "g" });
  expect(await endsWithoutHold("g")).toBe(true);
  await cluster.untilDeleted("sandboxes", "t/g");
});
