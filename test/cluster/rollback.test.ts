import { afterAll, beforeAll, expect, it } from "vitest";
import { annotations } from "../../src/api/names/labels.ts";
import type { Sandbox, SandboxStatus } from "../../src/api/kinds/sandbox.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { count, counterTemplate as template } from "./counter.ts";
import { realNode } from "./controllers-real-node.ts";

/** Tests with real cells and real gVisor that a rollback restores the memory of the checkpoint in the same sandbox. */
let cluster: Cluster;

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  await cluster.namespace("t");
});
afterAll(() => cluster.close());

const apiVersion = "agents.kruise.io/v1alpha1";
async function create(kind: string, name: string, spec: object): Promise<void> {
  await cluster.create({ apiVersion, kind, metadata: { name, namespace: "t" }, spec });
}
const sandbox = (holds: (status: SandboxStatus) => boolean): Promise<Sandbox> =>
  cluster.sandbox("t/a", ({ status }) => status !== undefined && holds(status));
async function rollBack(to: string, request: string): Promise<void> {
  const requested = { [annotations.rollbackTo]: to, [annotations.rollbackRequest]: request };
  await cluster.seen.sandboxes.resource.mergePatch(
    { namespace: "t", name: "a" },
    { metadata: { annotations: requested } },
  );
}
it("restores the memory twice, and also if the controllers restart during the rollback", async () => {
  await create("Sandbox", "a", { template });
  const before = await sandbox(({ phase }) => phase === "Running");
  expect([await count(cluster, "a"), await count(cluster, "a")]).toEqual([1, 2]);
  await create("Checkpoint", "a-1", { sandboxName: "a" });
  const { status } = await cluster.checkpoint("t/a-1", ({ status: now }) => now?.phase === "Succeeded");
  const id = status?.checkpointId ?? "";
  expect([await count(cluster, "a"), await count(cluster, "a")]).toEqual([3, 4]);

  await rollBack(id, "1");
  const first = await sandbox(({ conditions }) => findCondition(conditions, "RolledBack")?.status === "True");
  expect(first.status).toMatchObject({ phase: "Running", ramet: { restoredFrom: id } });
  expect([first.status?.podInfo?.podUID, first.status?.sandboxIp]).toEqual([
    before.status?.podInfo?.podUID,
    before.status?.sandboxIp,
  ]);
  expect(await count(cluster, "a")).toBe(3);

  const generation = first.status?.ramet?.generation;
  const request = first.status?.ramet?.rollback?.request;
  await rollBack(id, "2");
  await cluster.restartControllers();
  const second = await sandbox(
    ({ conditions, ramet }) =>
      ramet?.rollback?.request !== request && findCondition(conditions, "RolledBack")?.reason === "Succeeded",
  );
  // The cell restored the memory only once, although both controllers may have requested it.
  expect(second.status?.ramet?.generation).toBe(generation);
  expect(await count(cluster, "a")).toBe(3);
});

it("keeps the memory after a rejected rollback, and pauses and resumes a sandbox after a rollback", async () => {
  await rollBack("unknown", "3");
  await sandbox(({ conditions }) => findCondition(conditions, "RolledBack")?.reason === "NotFound");
  expect(await count(cluster, "a")).toBe(4);

  const paused = (value: boolean) =>
    cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name: "a" }, { spec: { paused: value } });
  await paused(true);
  await sandbox(({ conditions }) => findCondition(conditions, "SandboxPaused")?.status === "True");
  await paused(false);
  await sandbox(({ conditions }) => findCondition(conditions, "SandboxResumed")?.status === "True");
  expect(await count(cluster, "a")).toBe(5);
});
