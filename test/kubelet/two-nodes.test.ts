import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { delay, systemClock } from "../../src/base/clock.ts";
import { sandboxWithVolume } from "../setup/sandbox-with-volume.ts";
import { randomFrom } from "../faults/long/plan.ts";
import { imageNames } from "./images.ts";
import { openShell, readCommands } from "./page.ts";
import { killProcess, processesOf } from "./pod-processes.ts";
import { startSlowStorage } from "./slow-storage.ts";
import {
  client,
  closeTwoNodes,
  cordonOnly,
  drain,
  evict,
  field,
  fileWith,
  identity,
  long,
  moveControllers,
  nodeB,
  nodeOf,
  openTwoNodes,
  preempt,
  podOf,
  program,
  sandboxes,
  sandboxesOnly,
  setting,
  startSlotted,
  template,
  untilCounting,
  untilMoved,
  witness,
  world,
} from "./two-nodes.ts";
import { controllers } from "./world.ts";

/**
 * Tests on two nodes with real kubelets that sandboxes move from one to the other, with the real `kubectl drain`. Does not test a
 * cloud's network or its autoscaler.
 */
vi.setConfig({ testTimeout: 400_000 });
beforeAll(openTwoNodes);
afterAll(closeTwoNodes);

it("continues every sandbox of a drained node on the other node, with memory, files, identity and token", async () => {
  await cordonOnly("node-a");
  for (const name of sandboxes) await world.ramet("sandbox", "create", "--template", "counting", "--name", name);
  await cordonOnly();
  for (const name of sandboxes) await untilCounting(name);
  const before = await Promise.all(sandboxes.map(identity));
  const counts = sandboxes.map((name) => witness.count(name));
  const credentials = await clusterCredentials(client);
  const tokens = before.map(({ uid }) => credentials.guestToken(uid));
  expect(await Promise.all(sandboxes.map(nodeOf))).toEqual(["node-b", "node-b", "node-b"]);
  await drain("node-b");
  for (const name of sandboxes) await expect.poll(() => field(name, ".status.phase"), long).toBe("Running");
  for (const name of sandboxes) await untilCounting(name);
  expect(await Promise.all(sandboxes.map(nodeOf))).toEqual(["node-a", "node-a", "node-a"]);
  expect(await Promise.all(sandboxes.map(identity))).toEqual(before);
  for (const [index, name] of sandboxes.entries()) {
    expect(await fileWith(tokens[index] ?? "", name)).toBeGreaterThan(counts[index] ?? 0);
  }
  expect(witness.violations).toEqual([]);
});

it("moves a sandbox once when a second drain begins during the first, also with the controllers on that node", async () => {
  await cordonOnly();
  await Promise.all([drain("node-a"), drain("node-a")]);
  for (const name of sandboxes) await untilCounting(name);
  expect(await Promise.all(sandboxes.map(nodeOf))).toEqual(["node-b", "node-b", "node-b"]);
  expect(witness.violations).toEqual([]);
});

it("keeps the sandboxes of the only node until there is one again, and reports what they wait for", async () => {
  await cordonOnly("node-a");
  const before = await field("a", ".status.podInfo.podUID");
  await drain("node-b", sandboxesOnly);
  await expect.poll(() => world.ramet("explain", "sandbox/a"), long).toMatch(/node-[ab]|nodes are available/);
  expect(witness.violations).toEqual([]);
  await cordonOnly("node-b");
  for (const name of sandboxes) await untilMoved(name, before);
  expect(await Promise.all(sandboxes.map(nodeOf))).toEqual(["node-a", "node-a", "node-a"]);
  expect(witness.violations).toEqual([]);
});

it("continues sandboxes on whose node somebody sets a NoExecute taint, for which kube-controller-manager ends their Pods", async () => {
  await cordonOnly();
  const taint = "test.ramet.dev/out";
  const before = await Promise.all(sandboxes.map((name) => field(name, ".status.podInfo.podUID")));
  await world.kubectl("taint", "node", "node-a", `${taint}=now:NoExecute`);
  for (const [index, name] of sandboxes.entries()) await untilMoved(name, before[index] ?? "");
  await world.kubectl("taint", "node", "node-a", `${taint}-`);
  expect(await Promise.all(sandboxes.map(nodeOf))).toEqual(["node-b", "node-b", "node-b"]);
  for (const name of sandboxes) expect(await field(name, ".status.ramet.disruption.cause")).toBe("NodeTaint");
  expect(witness.violations).toEqual([]);
});

it("does what the page about node maintenance says, with the commands of the page", async () => {
  await cordonOnly();
  const node = await nodeOf("a");
  const other = node === "node-a" ? "node-b" : "node-a";
  const run = await openShell(world);
  const headings = ["# Node maintenance", "## Before the Pods are ended", "## Plan a drain"];
  const commands = (one: string) => readCommands("docs/tasks/node-maintenance.md", headings, { "node-1": one });
  const pods = () => Promise.all(sandboxes.map((name) => field(name, ".status.podInfo.podUID")));
  const before = await pods();
  const [, keep = "", plan = ""] = await commands(node);
  // Other suites may have left sandboxes on the node.
  const migrating = [...(await run(plan)).matchAll(/^default +(\S+) +Migrates\b/gm)].map(([, name = ""]) => name);
  expect(migrating.filter((name) => sandboxes.some((own) => own === name))).toEqual(sandboxes);
  await run(`${keep}\nkubectl cordon ${node}`);
  // Longer than the controllers take to begin the move of a cordoned node's first sandbox.
  await delay(systemClock, 5_000);
  expect(await pods()).toEqual(before);
  await run(`kubectl annotate node ${node} ramet.dev/move-sandboxes-`);
  for (const [index, name] of sandboxes.entries()) await untilMoved(name, before[index] ?? "");
  for (const name of sandboxes) expect(await field(name, ".status.ramet.disruption.cause")).toBe("NodeCordoned");
  await cordonOnly();
  const [drained = ""] = await commands(other);
  expect(await run(drained)).toContain("sandbox/a");
  for (const name of sandboxes) await untilCounting(name);
  expect(await Promise.all(sandboxes.map(nodeOf))).toEqual([node, node, node]);
  expect(witness.violations).toEqual([]);
});

it("continues a sandbox if the leading controller is killed during the migration", async () => {
  await cordonOnly();
  const before = await field("a", ".status.podInfo.podUID");
  await expect.poll(() => world.readyPods(...controllers), long).toBeGreaterThan(0);
  const leader = await world.leader();
  await evict("a");
  const killedAt = Date.now();
  await killProcess("ramet", leader.split("_")[0] ?? "");
  await expect.poll(() => world.leader(), long).not.toBe(leader);
  console.log(`another controller leads after ${((Date.now() - killedAt) / 1000).toFixed(1)} s`);
  await untilMoved("a", before);
  console.log(`the sandbox continues after ${((Date.now() - killedAt) / 1000).toFixed(1)} s`);
  expect(witness.violations).toEqual([]);
});

it("continues a sandbox whose kubelet and containerd are killed, and runs no second copy, also when they are back", async () => {
  await cordonOnly("node-a");
  await world.ramet("sandbox", "create", "--template", "counting", "--name", "d");
  await cordonOnly();
  await untilCounting("d");
  const before = await field("d", ".status.podInfo.podUID");
  expect(await nodeOf("d")).toBe("node-b");
  await nodeB.programs.kill();
  await evict("d");
  await untilMoved("d", before);
  expect(await nodeOf("d")).toBe("node-a");
  await nodeB.programs.start();
  await untilCounting("d");
  expect(witness.violations).toEqual([]);
});

it("drains a node with a set's ready sandboxes when others are ready, and evicts none before", async () => {
  await cordonOnly("node-a");
  // Claimed sandboxes keep the label of their set, and other suites have left some.
  const metadata = { name: "drained", namespace: "default" };
  const spec = { replicas: 2, templateRef: { name: "counting" } };
  await world.apply(JSON.stringify({ apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", metadata, spec }));
  const sets = client.of(sandboxSetKind);
  const ready = async () => (await sets.get(metadata)).status?.availableReplicas;
  await expect.poll(ready, long).toBe(2);
  const members = "agents.kruise.io/sandbox-pool=drained";
  const nodes = () => world.kubectl("get", "pods", "-l", members, "-o", "jsonpath={.items[*].spec.nodeName}");
  await expect.poll(nodes, long).toBe("node-b node-b");
  await cordonOnly("node-b");
  // As the documentation says, the drain follows some moments later.
  const budgets = () =>
    world.kubectl(
      "get",
      "poddisruptionbudgets",
      "-o",
      "jsonpath={.items[*].spec.minAvailable}/{.items[*].status.observedGeneration}",
    );
  await expect.poll(budgets, { ...long, interval: 20 }).toMatch(/^2\/[1-9]/);
  const drained = drain("node-b", `--pod-selector=${members}`);
  const ended = drained.then(() => true);
  for (let isDrained = false; !isDrained; isDrained = await Promise.race([ended, delay(systemClock, 50)]).then(Boolean))
    expect(await ready(), await budgets()).toBeGreaterThanOrEqual(2);
  await expect.poll(nodes, long).toBe("node-a node-a");
  await expect.poll(budgets, long).toBe("/");
  await world.kubectl("delete", "sandboxset", "drained");
});

it("continues a claimed sandbox and keeps a set's ready ones in number if its template changes during a drain", async () => {
  await cordonOnly("node-a");
  const metadata = { name: "rolled", namespace: "default" };
  const spec = { replicas: 2, templateRef: { name: "rolled" } };
  const revised = (revision: string) =>
    world.apply(JSON.stringify(template({ name: "rolled", annotations: { "test.ramet.dev/revision": revision } })));
  await revised("1");
  await world.apply(JSON.stringify({ apiVersion: "agents.kruise.io/v1alpha1", kind: "SandboxSet", metadata, spec }));
  const status = async () => (await client.of(sandboxSetKind).get(metadata)).status;
  await expect.poll(async () => (await status())?.availableReplicas, long).toBe(2);
  const name = await world.ramet("claim", "rolled");
  await untilCounting(name);
  const [before, pod] = [await identity(name), await field(name, ".status.podInfo.podUID")];
  await expect.poll(async () => (await status())?.availableReplicas, long).toBe(2);
  await cordonOnly("node-b");
  const drained = drain("node-b", sandboxesOnly);
  await revised("2");
  await untilMoved(name, pod);
  await drained;
  expect(await identity(name)).toEqual(before);
  const revisions = `jsonpath={.items[*].metadata.annotations.test\\.ramet\\.dev/revision}`;
  const pods = () => world.kubectl("get", "pods", "-l", "agents.kruise.io/sandbox-pool=rolled", "-o", revisions);
  await expect.poll(async () => (await pods()).split(" ").toSorted().join(" "), long).toBe("1 2 2");
  await expect.poll(async () => (await status())?.availableReplicas, long).toBe(2);
  expect(await nodeOf(name)).toBe("node-a");
  expect(witness.violations).toEqual([]);
  await world.kubectl("delete", "sandboxset", "rolled");
});

it("waits for a volume that its node detaches slowly, reports that, and continues with its data", async () => {
  const storage = await startSlowStorage(setting, { world, client, nodeB });
  onTestFinished(storage.stop);
  await cordonOnly("node-a");
  const metadata = { name: "stored", namespace: "default" };
  const { template: own, ...claims } = sandboxWithVolume(program(), {
    image: imageNames.python,
    storageClass: storage.storageClass,
  });
  const spec = { ...claims, template: { spec: { ...own.spec, terminationGracePeriodSeconds: 120 } } };
  await world.apply(JSON.stringify({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec }));
  await untilCounting("stored");
  await world.inSandbox("stored", "echo kept > /data/note");
  const before = await field("stored", ".status.podInfo.podUID");
  await cordonOnly("node-b");
  await drain("node-b", sandboxesOnly);
  await expect.poll(() => nodeOf("stored"), long).toBe("node-a");
  await expect.poll(() => world.ramet("explain", "sandbox/stored"), long).toMatch(/volume.*attach/i);
  const pod = await podOf("stored");
  await delay(systemClock, 20_000);
  expect(await podOf("stored")).toBe(pod);
  expect(await storage.nodes()).toContain("node-b");
  await storage.detach();
  await untilMoved("stored", before);
  expect(await podOf("stored")).toBe(pod);
  expect(await world.inSandbox("stored", "cat /data/note")).toBe("kept");
  expect(witness.violations).toEqual([]);
  await world.ramet("sandbox", "rm", "stored");
  await world.kubectl("delete", "pvc", "--all");
});

/** How many times a sandbox loses its Pod: `RAMET_TEST_DRAINS=200` for a table that says something about rare losses. */
const disruptions = Number(process.env["RAMET_TEST_DRAINS"] ?? 6);

it(
  `loses no sandbox in ${disruptions} drains, evictions, deletions and preemptions at random moments`,
  { timeout: 3_600_000 },
  async () => {
    await cordonOnly();
    const random = randomFrom(Number(process.env["RAMET_TEST_SEED"] ?? 1));
    const done = { drain: 0, evict: 0, delete: 0, preempt: 0 };
    await startSlotted();
    witness.downtimes.length = 0;
    const total = () => done.drain + done.evict + done.delete + done.preempt;
    const disrupt = async (name: string): Promise<void> => {
      const before = await field(name, ".status.podInfo.podUID");
      const [pause, kind] = [random() * 1_500, random() < 0.5 ? "evict" : "delete"] as const;
      await delay(systemClock, pause);
      if (kind === "evict") await evict(name);
      else await world.kubectl("delete", "pod", name, "--wait=false");
      done[kind]++;
      await untilMoved(name, before);
    };
    const ofNode = async (node: string, kind: "drain" | "preempt"): Promise<void> => {
      const there = [];
      for (const name of sandboxes) if ((await nodeOf(name)) === node) there.push(name);
      const before = await Promise.all(there.map((name) => field(name, ".status.podInfo.podUID")));
      await (kind === "drain" ? drain(node, sandboxesOnly) : preempt(node));
      done[kind] += there.length;
      for (const [index, name] of there.entries()) await untilMoved(name, before[index] ?? "");
      if (kind === "drain") await world.kubectl("uncordon", node);
      else await world.kubectl("delete", "pod", "preempting");
    };
    while (total() < disruptions) {
      const node = random() < 0.5 ? "node-a" : "node-b";
      const choice = random();
      if (choice < 0.3) await ofNode(node, "drain");
      else if (choice < 0.6) await ofNode(node, "preempt");
      else await Promise.all(sandboxes.map(disrupt));
      expect(witness.violations).toEqual([]);
    }
    const sorted = witness.downtimes.toSorted((a, b) => a - b);
    const at = (share: number) => Math.round(sorted[Math.ceil(sorted.length * share) - 1] ?? 0);
    console.log(
      JSON.stringify({
        ...done,
        moves: sorted.length,
        lost: 0,
        copies: 0,
        p50: at(0.5),
        p95: at(0.95),
        longest: at(1),
      }),
    );
    expect(sorted.length).toBeGreaterThanOrEqual(disruptions);
  },
);

it.each([
  // They have connections to the cell from before.
  ["on the other node", "node-a"],
  ["on that node", "node-b"],
] as const)(
  "continues a sandbox of a silent node from its last checkpoint, and ends the old one when the node is back: with the controllers %s",
  async (_, node) => {
    // Those of the other tests have no checkpoint.
    await world.kubectl("delete", "sandbox", "--all", "--wait=true");
    await moveControllers(node);
    await cordonOnly("node-a");
    const saved = template({ name: "saved", annotations: { [annotations.checkpointEvery]: "1m" } });
    await world.apply(JSON.stringify(saved));
    witness.forget("silent");
    await world.ramet("sandbox", "create", "--template", "saved", "--name", "silent");
    await expect.poll(() => field("silent", ".status.ramet.automatic.outcome"), long).toBe("Taken");
    const [before, uid] = [await identity("silent"), await field("silent", ".status.podInfo.podUID")];
    await cordonOnly();
    await nodeB.network.cut();
    witness.forget("silent");
    // As the documentation says for a machine that is off. This one is not.
    const taint = "node.kubernetes.io/out-of-service";
    await world.kubectl("taint", "node", "node-b", `${taint}=nodeshutdown:NoExecute`);
    await untilMoved("silent", uid);
    expect(await nodeOf("silent")).toBe("node-a");
    expect(await identity("silent")).toEqual(before);
    expect(await field("silent", ".status.ramet.disruption.outcome")).toBe("Restored");
    const cells = () => processesOf(uid, "runsc-sandbox");
    expect(await cells()).not.toEqual([]);
    expect(witness.violations).toEqual([]);
    await nodeB.network.mend();
    const mendedAt = Date.now();
    const since = () => `${((Date.now() - mendedAt) / 1000).toFixed(1)} s`;
    await expect.poll(cells, { ...long, timeout: 60_000 }).toEqual([]);
    console.log(`the earlier copy ran for ${since()} after the node was back`);
    // The earlier copy may have reported until then.
    witness.forget("silent");
    witness.violations.length = 0;
    await untilCounting("silent");
    expect(witness.violations).toEqual([]);
    expect(await nodeOf("silent")).toBe("node-a");
    await world.kubectl("taint", "node", "node-b", `${taint}-`);
    await expect.poll(() => processesOf(uid), long).toEqual([]);
    console.log(`all of its processes had ended after ${since()}`);
    await world.kubectl("wait", "--for=condition=Ready", "node/node-b", "--timeout=150s");
  },
);
