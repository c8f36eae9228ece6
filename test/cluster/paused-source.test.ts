import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox, SandboxStatus } from "../../src/api/kinds/sandbox.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { counterPort } from "../setup/counter.ts";
import { count, counterTemplate as template } from "./counter.ts";

/** Real cells and real gVisor: a paused sandbox is the source and the target of checkpoints without being resumed. */
let cluster: Cluster;
beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
async function create(kind: string, name: string, spec: object, notes: Record<string, string> = {}): Promise<void> {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace: "t", annotations: notes }, spec });
}
const sandbox = (name: string, holds: (status: SandboxStatus) => boolean): Promise<Sandbox> =>
  cluster.sandbox(`t/${name}`, ({ status }) => status !== undefined && holds(status));
const isPaused = ({ phase, conditions }: SandboxStatus): boolean =>
  phase === "Paused" && findCondition(conditions, "SandboxPaused")?.status === "True";
const setPaused = (name: string, paused: boolean) =>
  cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name }, { spec: { paused } });
async function taken(name: string, spec: object): Promise<string> {
  await create("Checkpoint", name, spec);
  const { status } = await cluster.checkpoint(`t/${name}`, ({ status: now }) => now?.completionTime !== undefined);
  expect(status?.message).toBeUndefined();
  expect(status?.phase).toBe("Succeeded");
  return status?.checkpointId ?? "";
}
async function clone(name: string, from: string): Promise<void> {
  await create("Sandbox", name, {}, { "ramet.dev/restore-from": from });
  expect((await sandbox(name, ({ phase }) => phase === "Running" || phase === "Failed")).status?.phase).toBe("Running");
}
async function remove(kind: "sandboxes" | "checkpoints", name: string): Promise<void> {
  await cluster.seen[kind].resource.delete({ namespace: "t", name });
  await cluster.untilDeleted(kind, `t/${name}`);
}
/** The ids under which the store has data. */
const stored = () => readdir(join(cluster.storePath, "t", "checkpoints")).catch(() => []);

it("takes a checkpoint of a paused sandbox, whose data survives the resume, and of which clones start", async () => {
  await create("Sandbox", "a", { template });
  await sandbox("a", ({ phase }) => phase === "Running");
  expect(await count(cluster, "a")).toBe(1);
  await setPaused("a", true);
  await sandbox("a", isPaused);
  const before = await stored();
  const id = await taken("one", { sandboxName: "a" });
  expect(await stored()).toEqual(before);
  const { sizeBytes, addedBytes } = cluster.seen.checkpoints.store.get("t/one")?.status?.ramet ?? {};
  expect(sizeBytes).toBeGreaterThan(0);
  expect(addedBytes).toBe(0);
  const ofPause = cluster.seen.checkpoints.store.list().find(({ metadata }) => metadata.name !== "one");
  expect(ofPause?.status?.ramet).toMatchObject({ sizeBytes, addedBytes: sizeBytes });
  expect(cluster.seen.pods.store.get("t/a")).toBeUndefined();
  await clone("b", id);
  expect(await count(cluster, "b")).toBe(2);
  expect(isPaused((await sandbox("a", () => true)).status ?? {})).toBe(true);

  await setPaused("a", false);
  await sandbox("a", ({ phase }) => phase === "Running");
  await cluster.restartControllers();
  await expect
    .poll(() => cluster.seen.checkpoints.store.list().map(({ metadata }) => metadata.name), { timeout: 20_000 })
    .toEqual(["one"]);
  expect(await stored()).toEqual(before);
  await clone("c", id);
  expect(await count(cluster, "c")).toBe(2);
  expect(await count(cluster, "a")).toBe(2);
});

it("rolls back a paused sandbox, which stays paused and then continues from the checkpoint", async () => {
  const id = cluster.seen.checkpoints.store.get("t/one")?.status?.checkpointId ?? "";
  expect(await count(cluster, "a")).toBe(3);
  await setPaused("a", true);
  await sandbox("a", isPaused);
  const requested = { [annotations.rollbackTo]: id, [annotations.rollbackRequest]: "1" };
  await cluster.seen.sandboxes.resource.mergePatch(
    { namespace: "t", name: "a" },
    { metadata: { annotations: requested } },
  );
  await cluster.restartControllers();
  const { status } = await sandbox("a", ({ conditions }) => {
    const { reason } = findCondition(conditions, "RolledBack") ?? {};
    return reason !== undefined && reason !== "Pending";
  });
  expect(findCondition(status?.conditions, "RolledBack")).toMatchObject({ status: "True", reason: "Succeeded" });
  expect(status).toMatchObject({ phase: "Paused", ramet: { restoredFrom: id } });
  expect(cluster.seen.pods.store.get("t/a")).toBeUndefined();

  // The checkpoint may be deleted: the paused sandbox keeps the data.
  await remove("checkpoints", "one");
  await setPaused("a", false);
  await sandbox("a", ({ phase }) => phase === "Running");
  expect(await count(cluster, "a")).toBe(2);
  await expect.poll(() => cluster.seen.checkpoints.store.list().length, { timeout: 20_000 }).toBe(0);
  await expect.poll(stored, { timeout: 20_000 }).toEqual([]);
});

it("starts files alone under another template of the image, and on a paused sandbox, which keeps its identity", async () => {
  const serving = (who: string, script = "", more: object = {}, volumes: object[] = []) => ({
    spec: {
      terminationGracePeriodSeconds: 1,
      volumes,
      containers: [
        {
          name: "main",
          image: "python",
          command: ["sh", "-c", `${script} echo $WHO > /who; exec python3 -m http.server ${counterPort} --directory /`],
          env: [{ name: "WHO", value: who }],
          ports: [{ containerPort: counterPort }],
          ...more,
        },
      ],
    },
  });
  const file = async (name: string, path: string): Promise<string | undefined> => {
    const { status } = await cluster.seen.sandboxes.resource.get({ namespace: "t", name });
    const answer = await fetch(`http://${status?.sandboxIp ?? ""}:${counterPort}${path}`).catch(() => undefined);
    return answer?.ok === true ? (await answer.text()).trim() : undefined;
  };
  const serves = (name: string, path: string, text: string) =>
    expect.poll(() => file(name, path), { timeout: 20_000 }).toBe(text);
  await create("Sandbox", "seed", { template: serving("seed", "echo kept > /kept;") });
  await sandbox("seed", ({ phase }) => phase === "Running");
  await serves("seed", "/kept", "kept");
  const id = await taken("seed-files", { sandboxName: "seed", persistentContents: ["filesystem"] });

  const restore = { "ramet.dev/restore-from": id };
  const more = {
    resources: { limits: { memory: "384Mi", "ephemeral-storage": "2Gi" } },
    volumeMounts: [{ name: "work", mountPath: "/work" }],
  };
  const other = serving("clone", "", more, [{ name: "work", emptyDir: {} }]);
  await create("Sandbox", "other-template", { template: other }, restore);
  const clone = await sandbox("other-template", ({ phase }) => phase === "Running" || phase === "Failed");
  expect(clone.status).toMatchObject({
    phase: "Running",
    ramet: { restoredFrom: id, writableLayer: { medium: "disk", sizeBytes: 2 * 1024 ** 3 } },
  });
  await serves("other-template", "/who", "clone");
  expect(await file("other-template", "/kept")).toBe("kept");

  await create(
    "Sandbox",
    "other-image",
    { template: { spec: { containers: [{ name: "main", image: "no" }] } } },
    restore,
  );
  const refused = await sandbox("other-image", ({ phase }) => phase === "Failed");
  expect(findCondition(refused.status?.conditions, "Ready")).toMatchObject({
    reason: "TemplateMismatch",
    message: expect.stringContaining("Its files are on top of the image python") as string,
  });

  await create("Sandbox", "target", { template: serving("target") });
  const { metadata } = await sandbox("target", ({ phase }) => phase === "Running");
  await setPaused("target", true);
  await sandbox("target", isPaused);
  const requested = { [annotations.rollbackTo]: id, [annotations.rollbackRequest]: "1" };
  const at = { namespace: "t", name: "target" };
  await cluster.seen.sandboxes.resource.mergePatch(at, { metadata: { annotations: requested } });
  const held = await sandbox("target", (now) => findCondition(now.conditions, "RolledBack")?.status === "True");
  expect(isPaused(held.status ?? {})).toBe(true);
  await setPaused("target", false);
  const resumed = await sandbox("target", ({ phase }) => phase === "Running" || phase === "Failed");
  expect(resumed).toMatchObject({ metadata: { uid: metadata.uid }, status: { phase: "Running" } });
  await serves("target", "/who", "target");
  expect(await file("target", "/kept")).toBe("kept");
});

it("says why a sandbox whose pause kept nothing has no state to capture", async () => {
  await create("Sandbox", "s", { template, pauseStrategy: { type: "Stop" }, paused: false });
  await sandbox("s", ({ phase }) => phase === "Running");
  await setPaused("s", true);
  await sandbox("s", isPaused);
  await create("Checkpoint", "none", { sandboxName: "s" });
  const { status } = await cluster.checkpoint("t/none", ({ status: now }) => now?.completionTime !== undefined);
  expect(status?.phase).toBe("Failed");
  expect(status?.message).toContain("its pause kept no memory and no files");
});
