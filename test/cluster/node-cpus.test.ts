import { afterAll, beforeAll, expect, it } from "vitest";
import type { Pod } from "../../src/api/schema/pod.ts";
import { explainSandbox } from "../../src/cli/explain/sandbox-rules.ts";
import { PodFacts } from "../../src/cli/explain/facts.ts";
import { findCondition } from "../../src/kube/conditions.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { startScheduler } from "../setup/scheduler.ts";
import { type Cluster, openCluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";
import { nodeObjects } from "./node-objects.ts";

/**
 * A real API server, the real scheduler and the real controllers. The nodes are objects, and their cells are stand-ins that report
 * CPUs and compare needs as real cells do: this does not prove what gVisor does on another CPU.
 */
const cpus: Record<string, string[]> = {
  new: ["sse2", "avx2", "avx512f"],
  old: ["sse2", "avx2"],
  older: ["sse2"],
  newer: ["sse2", "avx2", "avx512f", "amx_tile"],
};
const node = new StandInNode({
  buildOn: (name) => ({
    version: "stand-in",
    architecture: "amd64",
    guest: `sha256:${"0".repeat(64)}`,
    cpuFeatures: cpus[name] ?? [],
  }),
});
let cluster: Cluster;
let stopScheduler: () => Promise<void>;

beforeAll(async () => {
  cluster = await openCluster({ startNode: node.start, allApis: true });
  stopScheduler = await startScheduler(cluster.kubeconfigPath);
  await cluster.namespace("t");
}, 300_000);
afterAll(async () => {
  await stopScheduler();
  await cluster.close();
});

const nodes = nodeObjects(() => cluster.client);
// What is cordoned here only takes no new Pods.
const addNode = (name: string) => nodes.add(name, { annotations: { [annotations.moveSandboxes]: "false" } });
const { remove: removeNode, cordon } = nodes;

const container = { name: "main", image: "python", command: ["sleep", "1"] };
const template = { spec: { terminationGracePeriodSeconds: 1, containers: [container] } };
async function create(kind: string, name: string, spec: object, restoreFrom?: string): Promise<void> {
  const metadata = {
    name,
    namespace: "t",
    ...(restoreFrom !== undefined && { annotations: { "ramet.dev/restore-from": restoreFrom } }),
  };
  await cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind, metadata, spec });
}
const started = (name: string) =>
  cluster.sandbox(`t/${name}`, ({ status }) => status?.phase === "Running" || status?.phase === "Failed");
const waiting = (name: string, reason: string) =>
  cluster.sandbox(`t/${name}`, ({ status }) => findCondition(status?.conditions, "Ready")?.reason === reason);
async function remove(name: string): Promise<void> {
  await cluster.seen.sandboxes.resource.delete({ namespace: "t", name }, {});
  await cluster.untilDeleted("sandboxes", `t/${name}`);
}
const podOf = (name: string): Promise<Pod> => cluster.seen.pods.resource.get({ namespace: "t", name });
let id = "";

it("replaces the Pod of a clone on a node whose CPU lacks a feature, and remembers the node for others", async () => {
  await addNode("new");
  await create("Sandbox", "source", { template });
  expect((await started("source")).status).toMatchObject({ phase: "Running", nodeName: "new" });
  await create("Checkpoint", "c", { sandboxName: "source" });
  const { status } = await cluster.checkpoint("t/c", (one) => one.status?.phase === "Succeeded");
  id = status?.checkpointId ?? "";

  // Only the node without the features accepts Pods now.
  await cordon("new", true);
  await addNode("old");
  await create("Sandbox", "clone", { template }, id);
  const refused = await waiting("clone", "CpuFeaturesMissing");
  expect(refused.status?.ramet?.unsuitedNodes).toEqual(["old"]);
  expect(refused.status?.message).toContain("needs the CPU feature avx512f, which the node old does not have");
  await cordon("new", false);
  const { status: placed } = await started("clone");
  expect(placed).toMatchObject({ phase: "Running", nodeName: "new", ramet: { restoredFrom: id } });
  expect(placed?.ramet).not.toHaveProperty("unsuitedNodes");

  // The next clone does not try the node again: its Pod avoids it, also after a restart of the controllers.
  await cluster.restartControllers();
  await create("Sandbox", "next", { template }, id);
  expect((await started("next")).status?.nodeName).toBe("new");
  const { spec } = await podOf("next");
  expect(JSON.stringify(spec["affinity"])).toContain('{"key":"metadata.name","operator":"NotIn","values":["old"]}');
  expect(spec["nodeSelector"]).toEqual({ "kubernetes.io/arch": "amd64" });
});

it("lets sandboxes that need no feature run on every node", async () => {
  await create("Sandbox", "fresh", { template });
  await started("fresh");
  expect(await podOf("fresh")).not.toHaveProperty("spec.affinity.nodeAffinity");
  await create("Checkpoint", "files", { sandboxName: "source", persistentContents: ["filesystem"] });
  const { status } = await cluster.checkpoint("t/files", (one) => one.status?.phase === "Succeeded");
  await create("Sandbox", "of-files", { template }, status?.checkpointId);
  await started("of-files");
  expect(await podOf("of-files")).not.toHaveProperty("spec.affinity.nodeAffinity");
  for (const name of ["clone", "next", "fresh", "of-files"]) await remove(name);
});

it("claims the ready sandbox whose node has the features, and else starts a new Pod on such a node", async () => {
  // One sandbox of the set on each node.
  const spread = {
    topologyKey: "kubernetes.io/hostname",
    maxSkew: 1,
    whenUnsatisfiable: "DoNotSchedule",
    labelSelector: { matchLabels: { app: "pool" } },
  };
  const spec = { ...template.spec, topologySpreadConstraints: [spread] };
  await create("SandboxSet", "pool", { replicas: 2, template: { metadata: { labels: { app: "pool" } }, spec } });
  await expect
    .poll(() => cluster.seen.sets.store.get("t/pool")?.status?.availableReplicas, { timeout: 60_000 })
    .toBe(2);
  const claim = async (name: string) => {
    await create("SandboxClaim", name, { templateName: "pool", annotations: { "ramet.dev/restore-from": id } });
    await expect
      .poll(() => cluster.seen.claims.store.get(`t/${name}`)?.status?.phase, { timeout: 60_000 })
      .toBe("Completed");
    const [sandbox = ""] = cluster.seen.claims.store.get(`t/${name}`)?.status?.ramet?.sandboxes ?? [];
    return (await cluster.sandbox(`t/${sandbox}`, ({ status }) => status?.ramet?.restoredFrom === id)).status;
  };
  const onNew = cluster.seen.sandboxes.store.list().find(({ metadata, status }) => {
    return metadata.labels?.["app"] === "pool" && status?.nodeName === "new";
  });
  // The set's next sandboxes run on the other node.
  await cordon("new", true);
  const first = await claim("claim-1");
  expect(first?.podInfo?.podUID).toBe(onNew?.status?.podInfo?.podUID);
  await expect
    .poll(() => cluster.seen.sets.store.get("t/pool")?.status?.availableReplicas, { timeout: 60_000 })
    .toBe(2);
  await cordon("new", false);
  const second = await claim("claim-2");
  expect(second).toMatchObject({ phase: "Running", nodeName: "new" });
  expect(second?.podInfo?.podUID).not.toBe(first?.podInfo?.podUID);
});

it("names the missing feature, the nodes and what to do if no node takes the Pod, and starts when one does", async () => {
  await addNode("older");
  await create("Sandbox", "on-older", {
    template: { spec: { ...template.spec, nodeSelector: { "kubernetes.io/hostname": "older" } } },
  });
  await started("on-older");
  await cordon("new", true);
  await create("Sandbox", "stuck", { template }, id);
  const stuck = await waiting("stuck", "CpuFeaturesMissing");
  expect(stuck.status?.phase).toBe("Pending");
  expect(stuck.status?.message).toContain(
    "needs the CPU features avx512f, avx2, which the nodes old, older do not have",
  );
  const pod = { value: PodFacts.parse(await podOf("stuck")) };
  const absent = { value: undefined };
  const common = { controllers: absent, events: absent, node: absent, nodeLease: absent };
  expect(explainSandbox({ sandbox: stuck, pod, now: new Date(), ...common })).toMatchObject({
    state: "stuck",
    reason: "CpuFeaturesMissing",
    cause: expect.stringContaining("old, older do not have") as string,
    action: "Add a node with a CPU like that of the node that captured it, or capture it again on one of these nodes",
  });

  await addNode("newer");
  expect((await started("stuck")).status).toMatchObject({ phase: "Running", nodeName: "newer" });
  await cordon("new", false);
});

it("forgets a node that is removed", async () => {
  const remembered = async () => {
    const maps = cluster.client.resource(coreResources.configMaps);
    const { data } = (await maps.get({ namespace: "ramet-system", name: "ramet-node-cpus" })) as { data?: object };
    return Object.keys(data ?? {}).filter((key) => !key.startsWith("cpu."));
  };
  await expect.poll(remembered).toContain("older");
  await removeNode("older");
  await expect.poll(remembered).not.toContain("older");
});
