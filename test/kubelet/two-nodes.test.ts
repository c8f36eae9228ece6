import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { annotations } from "../../src/api/names/labels.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { guestClientPort } from "../../src/api/wire/cell-api.ts";
import { clusterCredentials } from "../../src/backends/cluster-keys.ts";
import { delay, systemClock } from "../../src/base/clock.ts";
import { CellClient } from "../../src/cell/client/cell-client.ts";
import { containerUser, GuestClient } from "../../src/cell/client/guest-client.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { randomFrom } from "../faults/long/plan.ts";
import { imageNames } from "./images.ts";
import { openShell, readCommands } from "./page.ts";
import { cellSeccompProfile, type ClusterSetting, type SecondNode, startSecondNode } from "./node.ts";
import { countingProgram, Witness } from "./witness.ts";
import { controllers, makeStoreSecret, openWorld, type World } from "./world.ts";

/**
 * Tests on two nodes with real kubelets that sandboxes move from one to the other, with the real `kubectl drain`. Does not test a
 * cloud's network or its autoscaler.
 */
let world: World;
let nodeB: SecondNode;
let client: KubeClient;
const witness = new Witness();

beforeAll(async () => {
  world = await openWorld();
  const connection = await connectionFromKubeconfig({ path: world.kubeconfig, clock: systemClock });
  client = new KubeClient(connection, { clock: systemClock });
  await witness.open();
  nodeB = await startSecondNode(JSON.parse(process.env["RAMET_TEST_KUBELET"] ?? "{}") as ClusterSetting);
  const directory = join(world.directory, "kustomization");
  const address = `s3://checkpoints/two-nodes?endpoint=${encodeURIComponent(world.s3.endpoint)}&allow-insecure=true`;
  const images = ["--image", imageNames.controller, "--cell-image", imageNames.cell];
  const cells = ["--cell-seccomp-profile", cellSeccompProfile, "--cell-user-namespaces", "never"];
  const store = ["--store", address, "--store-secret", "s3"];
  await world.ramet("manifests", ...images, ...cells, ...store, "--egress-allow", witness.address, "--out", directory);
  await world.kubectl("apply", "-f", join(directory, "namespace.yaml"));
  await makeStoreSecret(world);
  await world.kubectl("apply", "-k", directory);
  await world.kubectl("rollout", "status", "-n", "ramet-system", "deployment/ramet-controller", "--timeout=180s");
  await world.apply(JSON.stringify(template(countingProgram(witness.address))));
});
afterAll(async () => {
  await world.kubectl("uncordon", "node-a");
  await world.kubectl("delete", "sandboxset", "drained", "--ignore-not-found");
  await world.kubectl("delete", "sandbox", "--all", "--wait=true");
  await world.kubectl("delete", "-f", join(world.directory, "kustomization", "deployment.yaml"));
  await world.kubectl("delete", "node", "node-b");
  await nodeB.stop();
  witness.close();
  await client.close();
});

const template = (program: string, name = "counting", annotations: Record<string, string> = {}) => ({
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "SandboxTemplate",
  metadata: { name, namespace: "default" },
  spec: {
    template: {
      metadata: { annotations },
      spec: {
        // A busy machine can take long.
        terminationGracePeriodSeconds: 120,
        containers: [{ name: "sandbox", image: imageNames.python, command: ["python3", "-c", program] }],
      },
    },
  },
});

vi.setConfig({ testTimeout: 400_000 });
const long = { timeout: 150_000, interval: 250 };
const sandboxes = ["a", "b", "c"] as const;

const field = (name: string, path: string) => world.kubectl("get", "sandbox", name, "-o", `jsonpath={${path}}`);
const nodeOf = (name: string) =>
  world.kubectl("get", "pod", name, "--ignore-not-found", "-o", "jsonpath={.spec.nodeName}");
/** What a client knows of a sandbox. */
const identity = async (name: string) => {
  const read = await world.inSandbox(name, "cat /run/ramet/identity.json");
  const { sandboxId, hostname } = JSON.parse(read) as Record<string, unknown>;
  return { uid: await field(name, ".metadata.uid"), sandboxId, hostname };
};

/** The file of the program, with an access token that a client has. */
async function fileWith(accessToken: string, name: string): Promise<number> {
  const { key } = await clusterCredentials(client);
  const cells = new CellClient(key);
  const [uid, ip] = [await field(name, ".metadata.uid"), await field(name, ".status.sandboxIp")];
  const dial = () => cells.dial({ ip, sandboxUid: uid }, guestClientPort);
  try {
    return Number(
      await text(await new GuestClient({ dial, accessToken, user: containerUser }).readFile("/root/count")),
    );
  } finally {
    cells.close();
  }
}

/** Each test begins with the cordons that it needs, whatever the one before has left. */
async function cordonOnly(...cordoned: string[]): Promise<void> {
  for (const node of ["node-a", "node-b"]) {
    await world.kubectl(cordoned.includes(node) ? "cordon" : "uncordon", node);
  }
}

/** As the documentation says. The controllers stay with `sandboxesOnly`. */
const drain = (node: string, ...more: string[]) =>
  world.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s", ...more);
const sandboxesOnly = "--pod-selector=agents.kruise.io/sandbox-name";

async function evict(name: string): Promise<void> {
  const path = join(world.directory, `eviction-${name}.json`);
  await writeFile(
    path,
    JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: "default" } }),
  );
  await world.kubectl("create", "--raw", `/api/v1/namespaces/default/pods/${name}/eviction`, "-f", path);
}

/** Until it counts on in another Pod. */
async function untilMoved(name: string, before: string): Promise<void> {
  await expect
    .poll(async () => [await field(name, ".status.podInfo.podUID"), await field(name, ".status.phase")], long)
    .toEqual([expect.not.stringMatching(before), "Running"]);
  await untilCounting(name);
}

async function untilCounting(name: string): Promise<void> {
  const count = witness.count(name);
  await expect.poll(() => witness.count(name), long).toBeGreaterThan(count + 2);
}

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

/** How many times a sandbox loses its Pod: `RAMET_TEST_DRAINS=200` for a table that says something about rare losses. */
const disruptions = Number(process.env["RAMET_TEST_DRAINS"] ?? 6);

it(
  `loses no sandbox in ${disruptions} drains, evictions and deletions at random moments`,
  { timeout: 3_600_000 },
  async () => {
    await cordonOnly();
    const random = randomFrom(Number(process.env["RAMET_TEST_SEED"] ?? 1));
    const done = { drain: 0, evict: 0, delete: 0 };
    witness.downtimes.length = 0;
    const total = () => done.drain + done.evict + done.delete;
    const disrupt = async (name: string): Promise<void> => {
      const before = await field(name, ".status.podInfo.podUID");
      const [pause, kind] = [random() * 1_500, random() < 0.5 ? "evict" : "delete"] as const;
      await delay(systemClock, pause);
      if (kind === "evict") await evict(name);
      else await world.kubectl("delete", "pod", name, "--wait=false");
      done[kind]++;
      await untilMoved(name, before);
    };
    const drainOne = async (node: string): Promise<void> => {
      const there = [];
      for (const name of sandboxes) if ((await nodeOf(name)) === node) there.push(name);
      await drain(node, sandboxesOnly);
      done.drain += there.length;
      for (const name of there) await expect.poll(() => field(name, ".status.phase"), long).toBe("Running");
      for (const name of there) await untilCounting(name);
      await world.kubectl("uncordon", node);
    };
    while (total() < disruptions) {
      if (random() < 0.4) await drainOne(random() < 0.5 ? "node-a" : "node-b");
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

it("continues a sandbox of a silent node from its last checkpoint, and ends the old one when the node is back", async () => {
  // Those of the other tests have no checkpoint.
  await world.kubectl("delete", "sandbox", "--all", "--wait=true");
  await cordonOnly("node-a");
  const saved = template(countingProgram(witness.address), "saved", { [annotations.checkpointEvery]: "1m" });
  await world.apply(JSON.stringify(saved));
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
  expect(await processesOf(uid, "runsc-sandbox")).not.toEqual([]);
  expect(witness.violations).toEqual([]);
  await nodeB.network.mend();
  const mendedAt = Date.now();
  const cells = () => processesOf(uid, "runsc-sandbox");
  await expect.poll(cells, { ...long, timeout: 60_000 }).toEqual([]);
  console.log(`the earlier copy ran for ${((Date.now() - mendedAt) / 1000).toFixed(1)} s after the node was back`);
  // The earlier copy may have reported until then.
  witness.forget("silent");
  witness.violations.length = 0;
  await untilCounting("silent");
  expect(witness.violations).toEqual([]);
  expect(await nodeOf("silent")).toBe("node-a");
  await world.kubectl("taint", "node", "node-b", `${taint}-`);
  await expect.poll(() => processesOf(uid), long).toEqual([]);
  console.log(`all of its processes had ended after ${((Date.now() - mendedAt) / 1000).toFixed(1)} s`);
  await world.kubectl("wait", "--for=condition=Ready", "node/node-b", "--timeout=150s");
});

/** Kills the process of a Pod's container. */
async function killProcess(program: string, pod: string): Promise<void> {
  for (const pid of await processes()) {
    if (!(await ofProcess(pid, "environ")).split("\0").includes(`HOSTNAME=${pod}`)) continue;
    if (!(await ofProcess(pid, "cmdline")).includes(program)) continue;
    process.kill(Number(pid), "SIGKILL");
    return;
  }
  throw new Error(`no process of ${pod}`);
}

/** The processes in the control groups of a Pod, or those of a program. */
async function processesOf(uid: string, program = ""): Promise<string[]> {
  const found = (await processes()).map(async (pid) => {
    const isOfPod = (await ofProcess(pid, "cgroup")).includes(`pod${uid}`);
    return isOfPod && (await ofProcess(pid, "cmdline")).includes(program) ? [pid] : [];
  });
  return (await Promise.all(found)).flat();
}

const processes = async () => (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
const ofProcess = (pid: string, file: string) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
