import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { NamedSnapshotStatus } from "../../src/api/kinds/named-snapshot-status.ts";
import { runProgram } from "../../src/cli/program.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { counterPort } from "../setup/counter.ts";
import { otherGuest } from "../setup/other-engine.ts";
import { type Cluster, type ClusterOptions, openCluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { counterTemplate } from "./counter.ts";

/** An upgrade between two real engines: what happens to named snapshots, sets and claims. */
let cluster: Cluster;
const options: ClusterOptions = { startNode: () => Promise.reject(new Error("unset")), cellImage: "cell:1" };

beforeAll(async () => {
  options.startNode = realNode({ cells: { "cell:2": { guest: await otherGuest() } } });
  cluster = await openCluster(options);
  await cluster.namespace("t");
}, 900_000);
afterAll(() => cluster.close());

const livenessProbe = { tcpSocket: { port: counterPort }, timeoutSeconds: 60 };
const template = {
  spec: {
    ...counterTemplate.spec,
    containers: counterTemplate.spec.containers.map((container) => ({ ...container, livenessProbe })),
  },
};

const at = (name: string) => ({ namespace: "t", name });
async function create(kind: string, name: string, spec: object, metadata: object = {}): Promise<void> {
  const apiVersion = kind === "NamedSnapshot" ? "ramet.dev/v1alpha1" : "agents.kruise.io/v1alpha1";
  await cluster.create({ apiVersion, kind, metadata: { ...at(name), ...metadata }, spec });
}
const slowly = { timeout: 120_000, interval: 200 };
const untilSnapshot = (name: string, holds: (status: NamedSnapshotStatus) => void) =>
  vi.waitFor(async () => {
    const { status = {} } = await cluster.seen.snapshots.resource.get(at(name));
    holds(status);
    return status;
  }, slowly);
const engineCurrent = ({ conditions }: NamedSnapshotStatus) => findCondition(conditions, "EngineCurrent");
const untilReady = (set: string, count: number) =>
  vi.waitFor(() => {
    const { updatedAvailableReplicas, replicas } = cluster.seen.sets.store.get(`t/${set}`)?.status ?? {};
    expect([replicas, updatedAvailableReplicas]).toEqual([count, count]);
  }, slowly);
const livenessOf = async (sandbox: string) =>
  (await cluster.seen.pods.resource.get(at(sandbox))).spec.containers[0]?.livenessProbe;
async function images(set: string): Promise<string[]> {
  const owned = cluster.seen.sandboxes.store
    .list()
    .filter(({ metadata }) => metadata.ownerReferences?.some(({ name }) => name === set));
  const pods = await Promise.all(owned.map(({ metadata }) => cluster.seen.pods.resource.get(metadata)));
  return pods.map((pod) => pod.spec.containers[0]?.image ?? "");
}
let count = 0;
/** Claims one sandbox, and returns the image of its Pod. */
async function claim(templateName: string): Promise<string> {
  const name = `claim-${++count}`;
  await create("SandboxClaim", name, { templateName });
  const sandbox = await vi.waitFor(() => {
    const { status } = cluster.seen.claims.store.get(`t/${name}`) ?? {};
    expect(status).toMatchObject({ phase: "Completed", claimedReplicas: 1 });
    return status?.ramet?.sandboxes?.[0] ?? "";
  }, slowly);
  return (await cluster.seen.pods.resource.get(at(sandbox))).spec.containers[0]?.image ?? "";
}

const recipe = [{ run: "echo one >> /one" }];
let first: NamedSnapshotStatus;

it("builds snapshots and fills sets with the first engine", async () => {
  await create("SandboxTemplate", "base", { template });
  for (const [name, more] of [
    ["auto", {}],
    ["manual", { engineUpgrade: "Manual" }],
  ] as const) {
    await create("NamedSnapshot", name, { from: { template: { name: "base" } }, recipe, ...more });
  }
  await create("NamedSnapshot", "child", { from: { snapshot: { name: "auto", version: 1 } }, recipe });
  for (const name of ["auto", "manual", "child"]) {
    const status = await untilSnapshot(name, ({ version }) => {
      expect(version).toBe(1);
    });
    if (name === "auto") first = status;
  }
  await create("SandboxSet", "pool", { replicas: 2, template });
  const metadata = { annotations: { "ramet.dev/restore-from": "auto" } };
  await create("SandboxSet", "warm", { replicas: 1, template: { ...template, metadata } });
  await Promise.all([untilReady("pool", 2), untilReady("warm", 1)]);
  expect(await images("pool")).toEqual(["cell:1", "cell:1"]);
});

it("lists before the upgrade what it will do", async () => {
  const plan = async (image: string) => {
    const io = memoryIo();
    const args = ["upgrade", "--plan", "--cell-image", image, "--kubeconfig", cluster.kubeconfigPath];
    expect(await runProgram(io, args)).toBe(0);
    return io.written("stdout").split("\n");
  };
  const { engine = "" } = first.versions?.[0] ?? {};
  expect((await plan("cell:2")).map((line) => line.replace(/ {3,}/g, " | "))).toEqual([
    "KIND | NAMESPACE | NAME | ENGINE | WHAT",
    `NamedSnapshot | t | auto | ${engine} | version 1 is captured again in the background, and stays current until then`,
    `NamedSnapshot | t | child | ${engine} | version 1 is captured again after the named snapshot auto`,
    `NamedSnapshot | t | manual | ${engine} | version 1 keeps its engine until a build is requested (engineUpgrade: Manual)`,
    "SandboxSet | t | pool | 2 sandboxes are replaced, new ones first",
    "SandboxSet | t | warm | 1 sandboxes are replaced when the snapshot that fills the set has a new version",
    expect.stringMatching(
      new RegExp(`^Engine \\| ${engine} \\| ${engine} \\| keep cell:1: \\d+ checkpoints and \\d+ sandboxes`),
    ),
    "",
  ]);
  expect(await plan("cell:1")).toEqual(["Nothing in the cluster depends on another engine.", ""]);
});

it("captures snapshots again, rolls sets without unavailable sandboxes, and fails no claim", async () => {
  const available: number[] = [];
  const unsubscribe = cluster.seen.sets.store.subscribe(({ object: { metadata, status } }) => {
    if (metadata.name === "pool") available.push(status?.availableReplicas ?? 0);
  });
  options.cellImage = "cell:2";
  await cluster.restartControllers();
  const claimed = [await claim("warm")];
  for (const name of ["auto", "child"]) {
    const status = await untilSnapshot(name, (one) => {
      expect(engineCurrent(one)).toMatchObject({ status: "True" });
    });
    const [earlier, current] = status.versions ?? [];
    expect(status.version).toBe(2);
    expect(current).toMatchObject({ digest: earlier?.digest, replaces: [1] });
    expect(current?.engine).not.toBe(earlier?.engine);
    claimed.push(await claim("warm"));
  }
  await Promise.all([untilReady("pool", 2), untilReady("warm", 1)]);
  unsubscribe();
  expect(Math.min(...available)).toBe(2);
  expect([await images("pool"), await images("warm")]).toEqual([["cell:2", "cell:2"], ["cell:2"]]);
  expect(claimed[0]).toBe("cell:1");
  expect([await claim("warm"), await claim("pool")]).toEqual(["cell:2", "cell:2"]);
});

it("leaves a snapshot with engineUpgrade Manual alone until a build is requested", async () => {
  const before = await untilSnapshot("manual", (one) => {
    expect(engineCurrent(one)).toMatchObject({ status: "False", reason: "ManualUpgrade" });
  });
  expect(before.latestVersion).toBe(1);
  await create("Sandbox", "of-manual", {}, { annotations: { "ramet.dev/restore-from": "manual" } });
  await cluster.sandbox("t/of-manual", ({ status }) => status?.phase === "Running");
  await create("Sandbox", "current", { template });
  await cluster.sandbox("t/current", ({ status }) => status?.phase === "Running");
  for (const name of ["of-manual", "current"])
    expect(await livenessOf(name)).toMatchObject({ httpGet: { path: `/tcpz/${counterPort}/live`, port: 49980 } });
  await cluster.seen.snapshots.resource.mergePatch(at("manual"), {
    metadata: { annotations: { "ramet.dev/build-request": "now" } },
  });
  const after = await untilSnapshot("manual", (one) => {
    expect(engineCurrent(one)).toMatchObject({ status: "True" });
  });
  expect(after.versions?.map(({ version }) => version)).toEqual([1, 2]);
});

it("continues an upgrade that the end of the controllers interrupts, and needs none after a downgrade", async () => {
  options.cellImage = "cell:1";
  await cluster.restartControllers();
  const status = await untilSnapshot("auto", ({ version }) => {
    expect(version).toBe(1);
  });
  expect(status.versions?.[0]?.checkpointId).toBe(first.versions?.[0]?.checkpointId ?? "");
  await create("NamedSnapshot", "late", {
    from: { template: { name: "base" } },
    recipe: [{ start: "sleep infinity" }, { run: "sleep 3" }],
  });
  await untilSnapshot("late", ({ version }) => {
    expect(version).toBe(1);
  });
  options.cellImage = "cell:2";
  await cluster.restartControllers();
  for (const reason of ["StartingBuilder", "RunningStep"]) {
    await untilSnapshot("late", ({ conditions }) => {
      expect(findCondition(conditions, "Building")?.reason).toBe(reason);
    });
    await cluster.restartControllers();
  }
  const upgraded = await untilSnapshot("late", ({ version }) => {
    expect(version).toBe(2);
  });
  expect(upgraded.versions?.map(({ replaces }) => replaces)).toEqual([undefined, [1]]);
  expect(upgraded.build).toMatchObject({ upgrade: { of: 1, cellImage: "cell:2" } });
});
