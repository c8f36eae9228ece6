import { renameSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { annotations, labels } from "../../src/api/names/labels.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { clusterRef } from "../../src/kube/resource-ref.ts";
import { descendants, killNow, processesWith } from "../faults/processes.ts";
import { builtPrograms } from "../setup/built-package.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { realNode } from "./controllers-real-node.ts";
import { count, counterTemplate } from "./counter.ts";

/** Tests with real cells and real gVisor. The sandboxes wait for their checkpoints at the same time. */
let cluster: Cluster;

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  await cluster.namespace("t");
  await refuseAutomatic();
  await Promise.all([
    create("killed"),
    create("idle", { [annotations.checkpointsKept]: "1" }),
    create("paused", { [annotations.onDisruption]: "Pause" }),
    create("ended", { [annotations.onDisruption]: "End" }),
    create("removed"),
  ]);
});
afterAll(() => cluster.close());

async function create(name: string, more: Record<string, string> = {}): Promise<void> {
  const template = {
    ...counterTemplate,
    metadata: { annotations: { [annotations.checkpointEvery]: "1m", ...more } },
  };
  const apiVersion = "agents.kruise.io/v1alpha1";
  await cluster.create({ apiVersion, kind: "Sandbox", metadata: { name, namespace: "t" }, spec: { template } });
  if (more[annotations.checkpointEvery] === undefined) expect(await count(cluster, name)).toBe(1);
}

const policyAt = { name: "no-automatic-checkpoints" };
/** As an administrator, a quota or a role may refuse them: for one sandbox, so that the others can be captured. */
async function refuseAutomatic(): Promise<void> {
  const apiVersion = "admissionregistration.k8s.io/v1";
  const rule = { apiGroups: ["agents.kruise.io"], apiVersions: ["*"], resources: ["checkpoints"] };
  const refused = `object.spec.sandboxName == "strict" && object.metadata.labels["${labels.purpose}"] == "automatic"`;
  const kinds = {
    ValidatingAdmissionPolicy: {
      matchConstraints: { resourceRules: [{ ...rule, operations: ["CREATE"] }] },
      validations: [{ expression: `!(${refused})`, message: "not here", reason: "Forbidden" }],
    },
    ValidatingAdmissionPolicyBinding: { policyName: policyAt.name, validationActions: ["Deny"] },
  };
  for (const [kind, spec] of Object.entries(kinds))
    await cluster.client.resource(clusterRef(apiVersion, kind)).create({ apiVersion, kind, metadata: policyAt, spec });
}

const automatic = ({ status }: Sandbox) => status?.ramet?.automatic;
const withOutcome = (name: string, outcome: string) =>
  cluster.sandbox(`t/${name}`, (sandbox) => automatic(sandbox)?.outcome === outcome);
const continued = ({ metadata, status: before }: Sandbox) =>
  cluster.sandbox(
    `t/${metadata.name}`,
    ({ status }) => status?.phase === "Running" && status.podInfo?.podUID !== before?.podInfo?.podUID,
  );

/** The processes of the sandbox's Pod, as on a machine that has crashed, or its cell. */
async function kill({ status }: Sandbox, which: "cell" | "all"): Promise<void> {
  const roots = await processesWith(status?.podInfo?.podUID ?? "");
  const all = [...roots, ...(await Promise.all(roots.map(({ pid }) => descendants(pid)))).flat()];
  const isCell = ({ commandLine }: { commandLine: string }) => commandLine.includes(builtPrograms.cell.at(-1) ?? "");
  const killed = which === "all" ? all : all.filter(isCell);
  expect(killed).not.toEqual([]);
  for (const { pid } of killed) killNow(pid);
}

const ownedBy = ({ metadata }: Sandbox) =>
  cluster.seen.checkpoints.store
    .list()
    .filter((one) => one.metadata.ownerReferences?.some(({ uid }) => uid === metadata.uid));

it("captures a running sandbox without being asked, and continues it from there when its cell is killed", async () => {
  const before = await withOutcome("killed", "Taken");
  const { checkpoint: name = "", savedAt } = automatic(before) ?? {};
  const { metadata, spec, status } = await cluster.checkpoint(`t/${name}`, () => true);
  expect(metadata.labels).toMatchObject({ [labels.purpose]: "automatic" });
  expect(spec).toMatchObject({ keepRunning: true, persistentContents: ["memory", "filesystem"] });
  expect(status?.phase).toBe("Succeeded");
  expect([await count(cluster, "killed"), await count(cluster, "killed")]).toEqual([2, 3]);

  // A rollback that is refused changes nothing.
  const nowhere = { metadata: { annotations: { [annotations.rollbackTo]: "nowhere" } } };
  await cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name: "killed" }, nowhere);
  await cluster.sandbox("t/killed", (one) => one.status?.ramet?.rollback?.refused === true);
  await kill(before, "cell");
  const after = await continued(before);
  expect(after.metadata.uid).toBe(before.metadata.uid);
  expect(after.status?.ramet?.disruption).toMatchObject({
    cause: "CellDied",
    outcome: "Restored",
    podUID: before.status?.podInfo?.podUID,
    checkpoint: name,
    savedAt,
  });
  // What was counted after the capture is lost.
  expect(await count(cluster, "killed")).toBe(2);
  expect(ownedBy(after).map((one) => one.metadata.name)).toEqual([name]);
});

it("pauses a sandbox with the policy Pause whose processes are all killed, with the state of its last checkpoint", async () => {
  const before = await withOutcome("paused", "Taken");
  await cluster.restartControllers();
  await kill(before, "all");
  const paused = await cluster.sandbox(
    "t/paused",
    ({ status }) => findCondition(status?.conditions, "SandboxPaused")?.status === "True",
  );
  expect(paused.spec.paused).toBe(true);
  expect(paused.status?.ramet?.disruption).toMatchObject({
    outcome: "Paused",
    checkpoint: automatic(before)?.checkpoint,
  });
  await cluster.seen.sandboxes.resource.mergePatch({ namespace: "t", name: "paused" }, { spec: { paused: false } });
  await continued(before);
  expect(await count(cluster, "paused")).toBe(2);
});

it("captures nothing of a sandbox with the policy End, which ends when its cell is killed", async () => {
  const sandbox = await cluster.sandbox("t/ended", ({ status }) => status?.phase === "Running");
  // The others, which were created with it, have been captured by now.
  expect(automatic(sandbox)).toBeUndefined();
  await kill(sandbox, "cell");
  const failed = await cluster.sandbox("t/ended", ({ status }) => status?.phase === "Failed");
  expect(ownedBy(failed)).toEqual([]);
});

it("continues a sandbox whose Pod was removed while no controllers ran, in another Pod only", async () => {
  const before = await withOutcome("removed", "Taken");
  await cluster.stopControllers();
  const at = { namespace: "t", name: "removed" };
  await cluster.seen.pods.resource.delete(at, { gracePeriodSeconds: 0 });
  await cluster.untilDeleted("pods", "t/removed");
  await cluster.startControllers();
  const after = await continued(before);
  expect(after.status?.ramet?.disruption).toMatchObject({ cause: "PodDeleted", outcome: "Restored" });
  expect(await count(cluster, "removed")).toBe(2);
  await cluster.seen.sandboxes.resource.delete(at);
  await cluster.untilDeleted("sandboxes", "t/removed");
  await cluster.untilDeleted("checkpoints", `t/${automatic(before)?.checkpoint ?? ""}`);
});

it("captures an idle sandbox once, also after a restart, and keeps as many as requested", async () => {
  const first = automatic(await cluster.sandbox("t/idle", (one) => automatic(one)?.checkpoint !== undefined));
  await cluster.restartControllers();
  const idle = await withOutcome("idle", "Skipped");
  expect(automatic(idle)).toMatchObject({ checkpoint: first?.checkpoint, savedAt: first?.savedAt });
  expect(automatic(idle)?.message).toMatch(/^The sandbox has done nothing since idle-auto-\w+: \d+ ms of CPU time$/);
  for (let requests = 0; requests < 300; requests++) await count(cluster, "idle");

  const busy = await cluster.sandbox("t/idle", (one) => (automatic(one)?.checkpoint ?? "") !== first?.checkpoint);
  await cluster.untilDeleted("checkpoints", `t/${first?.checkpoint ?? ""}`);
  expect(ownedBy(busy).map((one) => one.metadata.name)).toEqual([automatic(busy)?.checkpoint]);
});

it("reports that a checkpoint fails, while the sandbox runs", async () => {
  const away = `${cluster.storePath}-away`;
  renameSync(cluster.storePath, away);
  writeFileSync(cluster.storePath, "");
  try {
    await create("failing");
    const failing = await withOutcome("failing", "Failed");
    expect(automatic(failing)).toMatchObject({ failures: 1 });
    expect(findCondition(failing.status?.conditions, "CheckpointsTaken")?.status).toBe("False");
    expect(failing.status?.phase).toBe("Running");
    expect(await count(cluster, "failing")).toBe(2);
  } finally {
    renameSync(cluster.storePath, `${cluster.storePath}-file`);
    renameSync(away, cluster.storePath);
  }
});

it("reports that a checkpoint is refused while the sandbox runs, and takes it when that is over", async () => {
  // The pauses grow with each refusal, so it starts here.
  await create("strict");
  const strict = await withOutcome("strict", "Failed");
  expect(automatic(strict)?.message).toContain("The automatic checkpoint cannot be created");
  expect(findCondition(strict.status?.conditions, "CheckpointsTaken")).toMatchObject({
    status: "False",
    reason: "Forbidden",
    message: expect.stringContaining("not here") as string,
  });
  expect(strict.status?.phase).toBe("Running");
  expect(ownedBy(strict)).toEqual([]);
  const binding = clusterRef("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding");
  await cluster.client.resource(binding).delete(policyAt);
  const saved = await withOutcome("strict", "Taken");
  expect(findCondition(saved.status?.conditions, "CheckpointsTaken")).toBeUndefined();
  expect(automatic(saved)).not.toHaveProperty("failures");
});

it.each([
  [{ [annotations.checkpointEvery]: "30s" }, `[${annotations.checkpointEvery}] is not from 1m to 24h: "30s"`],
  [
    { [annotations.checkpointEvery]: "1m", [annotations.checkpointsKept]: "11" },
    `[${annotations.checkpointsKept}]: "11" is not a number from 1 to 10`,
  ],
])("refuses %j", async (given, message) => {
  const name = `refused-${Object.keys(given).length}`;
  await create(name, given);
  await cluster.sandbox(`t/${name}`, ({ status }) => (status?.message ?? "").includes(message));
});
