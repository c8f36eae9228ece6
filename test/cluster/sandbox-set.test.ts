import { afterAll, beforeAll, expect, it } from "vitest";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { keyOf } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { StandInNode } from "./controllers-stand-in-node.ts";
import { SetWorld } from "./sandbox-set-world.ts";

/**
 * Tests sets with a real API server, the real controllers and stand-in cells. Proves the sizes of pools and the writes, but
 * nothing about gVisor or durations. `sandbox-set-real.test.ts` has real cells.
 */
const node = new StandInNode();
let cluster: Cluster;
let number = 0;

beforeAll(async () => {
  cluster = await openCluster({ startNode: (context) => node.start(context) });
});
afterAll(() => cluster.close());

const template = (value = "1") => ({
  metadata: { labels: { app: "x" } },
  spec: { containers: [{ name: "main", image: "python", env: [{ name: "A", value }] }] },
});
const patient = { interval: 10 };
const world = () => SetWorld.open(cluster, `set${++number}`);
const ownedAndTemplates = (of: SetWorld) =>
  expect.poll(() => [of.owned.length, cluster.seen.templates.store.list().filter(inNamespace(of)).length], patient);
const inNamespace =
  ({ namespace }: SetWorld) =>
  ({ metadata }: { metadata: { namespace?: string } }): boolean =>
    metadata.namespace === namespace;

it("fills a set, reports it, and labels its sandboxes and its revision", async () => {
  const pool = await world();
  await pool.create({ replicas: 3, template: template() });
  const status = await pool.settled(3);
  expect(status).toMatchObject({
    updatedAvailableReplicas: 3,
    selector: "agents.kruise.io/sandbox-pool=pool",
    conditions: [
      { type: "Ready", status: "True", reason: "Available" },
      { type: "Updated", status: "True", reason: "AllUpdated" },
    ],
  });
  const hash = status.updateRevision ?? "";
  expect(status.currentRevision).toBe(`pool-${hash}`);
  for (const { metadata } of pool.owned) {
    expect(metadata.name).toMatch(/^pool-[a-z0-9]{5}$/);
    expect(metadata.labels).toEqual({
      app: "x",
      "agents.kruise.io/sandbox-pool": "pool",
      "agents.kruise.io/sandbox-template": "pool",
      "agents.kruise.io/sandbox-claimed": "false",
      "agents.kruise.io/template-hash": hash,
    });
  }
  const written = await cluster.seen.templates.resource.get({ ...pool.at, name: `pool-${hash}` });
  expect(written.spec.template).toEqual(template());
  const scale = await cluster.seen.sets.resource.getSubresource(pool.at, "scale");
  expect(scale).toMatchObject({ spec: { replicas: 3 }, status: { replicas: 3, selector: status.selector } });
  // An autoscaler finds the Pods of a set by this selector.
  const { namespace } = pool.at;
  const pods = await cluster.seen.pods.resource.list({ namespace, labelSelector: status.selector ?? "" });
  expect(pods.items.map(({ metadata }) => metadata.name).toSorted()).toEqual(
    pool.owned.map(({ metadata }) => metadata.name).toSorted(),
  );
});

it("scales up and down to zero through the scale subresource", async () => {
  const pool = await world();
  await pool.create({ replicas: 1, template: template() });
  await pool.settled(1);
  await pool.scale(5);
  await pool.settled(5);
  await pool.scale(2);
  await pool.settled(2);
  await expect.poll(() => pool.owned.length, patient).toBe(2);
  await pool.scale(0);
  await pool.settled(0);
  await expect.poll(() => pool.owned.length, patient).toBe(0);
});

it("replaces sandboxes that end or are deleted, and no others", async () => {
  const pool = await world();
  await pool.create({ replicas: 3, template: template() });
  await pool.settled(3);
  const [first, second] = pool.owned;
  const watched = pool.watchNumbers();
  const pod = await cluster.pod(keyOf(first!.metadata), () => true);
  await node.end(cluster.seen.pods, pod, { phase: "Failed", message: "killed" });
  await expect.poll(() => pool.names, patient).not.toContain(first!.metadata.name);
  await pool.settled(3);
  await cluster.seen.sandboxes.resource.delete(second!.metadata);
  await expect.poll(() => pool.names, patient).not.toContain(second!.metadata.name);
  await pool.settled(3);
  expect(watched().most).toBeLessThanOrEqual(3);
});

it("replaces a claimed sandbox and never changes it again; deleting the set deletes only unclaimed ones", async () => {
  const pool = await world();
  await pool.create({ replicas: 2, template: template() });
  await pool.settled(2);
  const [taken] = pool.owned;
  expect(await pool.claim(taken!)).toBe(true);
  await expect.poll(() => pool.owned.length, patient).toBe(2);
  await pool.settled(2);
  await pool.patch({ template: template("2") });
  const { updateRevision } = await pool.settled(2);
  expect(updateRevision).not.toBe(taken!.metadata.labels?.["agents.kruise.io/template-hash"]);
  await cluster.seen.sets.resource.delete(pool.at);
  await ownedAndTemplates(pool).toEqual([0, 0]);
  const kept = await cluster.seen.sandboxes.resource.get(taken!.metadata);
  expect(kept.metadata.deletionTimestamp).toBeUndefined();
  expect(kept.spec.template).toEqual(template());
  expect(kept.status?.phase).toBe("Running");
});

it("keeps as many sandboxes available during a roll as maxUnavailable requires", async () => {
  for (const [maxUnavailable, least] of [
    ["25%", 3],
    [0, 4],
  ] as const) {
    const pool = await world();
    await pool.create({ replicas: 4, template: template(), updateStrategy: { maxUnavailable } });
    const before = await pool.settled(4);
    const watched = pool.watchNumbers();
    await pool.patch({ template: template("2") });
    await expect.poll(() => pool.set?.status?.updateRevision, patient).not.toBe(before.updateRevision);
    await pool.settled(4);
    await expect.poll(() => pool.owned.length, patient).toBe(4);
    const { fewestAvailable, most } = watched();
    expect(fewestAvailable).toBeGreaterThanOrEqual(least);
    expect(most).toBeLessThanOrEqual(maxUnavailable === 0 ? 5 : 4);
    const events = cluster.client.resource(coreResources.events);
    await expect
      .poll(async () => JSON.stringify((await events.list({ namespace: pool.namespace })).items))
      .toContain("RollingUpdate");
  }
});

it("backs off from a template that cannot start and reports why; a corrected template is tried immediately", async () => {
  const pool = await world();
  const broken = { ...template(), metadata: { annotations: { "ramet.dev/restore-from": "no-such-id" } } };
  await pool.create({ replicas: 4, template: broken });
  const message = await pool.reason("StartFailing");
  expect(message).toMatch(
    /^\d+ times in a row .* Correct the template.*No checkpoint in the namespace set\d+ has the id/,
  );
  const before = failuresInARow(pool);
  // Counts the controllers' own requests, as the cache may show earlier sandboxes only now.
  const made = () =>
    cluster.requests().filter(({ verb, resource }) => verb === "create" && resource.plural === "sandboxes").length;
  expect(made()).toBeGreaterThan(0);
  // From the second failure on, one sandbox is tried at a time.
  await expect.poll(() => failuresInARow(pool), { timeout: 60_000 }).toBeGreaterThanOrEqual(before + 2);
  expect(made()).toBeLessThanOrEqual(failuresInARow(pool) - before + 1);
  await pool.patch({ template: { ...template(), metadata: { annotations: { "ramet.dev/restore-from": null } } } });
  await pool.settled(4);
  expect(await pool.reason("Available")).toBe("");
});

function failuresInARow({ set }: SetWorld): number {
  const ready = set?.status?.conditions?.find(({ type }) => type === "Ready");
  return Number(/^(\d+) times in a row/.exec(ready?.message ?? "")?.[1] ?? 0);
}

it("retries later when the API server rejects a sandbox, and reports the server's message", async () => {
  const pool = await world();
  await pool.create({ replicas: 2, template: { ...template(), metadata: { labels: { app: "not legal!" } } } });
  expect(await pool.reason("StartFailing")).toContain("not legal!");
  expect(pool.owned).toEqual([]);
  await pool.patch({ template: template() });
  await pool.settled(2);
});

it("names the invalid field of a set, and keeps its sandboxes", async () => {
  const pool = await world();
  await pool.create({ replicas: 1, template: template() });
  await pool.settled(1);
  await pool.patch({ template: { spec: { containers: [{ name: "main", image: null }] } } });
  expect(await pool.reason("InvalidArgument")).toContain("spec.template.spec.containers[0].image");
  expect(pool.available.length).toBe(1);
  await pool.patch({ template: template("2"), updateStrategy: { maxUnavailable: "many" } });
  await expect
    .poll(() => pool.set?.status?.conditions?.find(({ type }) => type === "Ready")?.message)
    .toContain("spec.updateStrategy.maxUnavailable is neither a number nor a percentage");
  expect(pool.available.length).toBe(1);
  await pool.patch({ updateStrategy: { maxUnavailable: 1 } });
  await pool.settled(1);
});

it("waits for a missing named template, and rolls when the template changes", async () => {
  const pool = await world();
  await pool.create({ replicas: 2, templateRef: { name: "base" } });
  expect(await pool.reason("NotFound")).toContain("The SandboxTemplate base does not exist");
  await pool.create({ template: template() }, "SandboxTemplate", "base");
  const { updateRevision, currentRevision } = await pool.settled(2);
  expect(currentRevision).toBe("base");
  expect(pool.owned[0]?.metadata.labels?.["agents.kruise.io/sandbox-template"]).toBe("base");
  await cluster.seen.templates.resource.mergePatch({ ...pool.at, name: "base" }, { spec: { template: template("2") } });
  await expect.poll(() => pool.set?.status?.updateRevision, patient).not.toBe(updateRevision);
  await pool.settled(2);
});

it("limits the sandboxes being created by scaleStrategy.maxUnavailable", async () => {
  const pool = await world();
  let most = 0;
  const stop = cluster.seen.sandboxes.store.subscribe(() => {
    most = Math.max(most, pool.owned.length - pool.available.length);
  });
  await pool.create({ replicas: 8, template: template(), scaleStrategy: { maxUnavailable: 2 } });
  await pool.settled(8);
  stop();
  expect(most).toBeLessThanOrEqual(2);
});

it("creates nothing twice and leaves nothing behind when the controller restarts while it scales a set", async () => {
  const pool = await world();
  await pool.create({ replicas: 20, template: template() });
  for (const reached of [1, 8]) {
    await expect.poll(() => pool.owned.length, { interval: 2 }).toBeGreaterThanOrEqual(reached);
    await cluster.restartControllers();
  }
  await pool.settled(20);
  await expect.poll(() => pool.owned.length, patient).toBe(20);
  await pool.scale(3);
  await expect.poll(() => pool.owned.length, { interval: 2 }).toBeLessThan(20);
  await cluster.restartControllers();
  await pool.settled(3);
  await expect.poll(() => pool.owned.length, patient).toBe(3);
  await cluster.stopControllers();
  await cluster.seen.sets.resource.delete(pool.at);
  await cluster.startControllers();
  await ownedAndTemplates(pool).toEqual([0, 0]);
});

it("deletes a sandbox that an earlier controller locked for deletion", async () => {
  const pool = await world();
  await pool.create({ replicas: 2, template: template() });
  await pool.settled(2);
  await cluster.stopControllers();
  const [victim] = pool.owned;
  await cluster.seen.sandboxes.resource.mergePatch(victim!.metadata, {
    metadata: {
      annotations: { "agents.kruise.io/lock": "x", "agents.kruise.io/owner": "__manager_scale_down" },
    },
  });
  await cluster.startControllers();
  await expect.poll(() => pool.names, patient).not.toContain(victim!.metadata.name);
  await pool.settled(2);
});

it("deletes no claimed sandbox while a set shrinks and is claimed from", async () => {
  const pool = await world();
  await pool.create({ replicas: 12, template: template() });
  await pool.settled(12);
  const shrinking = pool.scale(2);
  const outcomes = await Promise.all(pool.owned.map(async (sandbox) => ({ sandbox, won: await pool.claim(sandbox) })));
  await shrinking;
  await pool.settled(2);
  await expect.poll(() => pool.owned.length, patient).toBe(2);
  const won = outcomes.filter((outcome) => outcome.won).map(({ sandbox }) => sandbox.metadata);
  expect(won.length).toBeGreaterThan(0);
  for (const claimed of won) {
    const found = await cluster.seen.sandboxes.resource.get(claimed);
    expect(found.metadata.deletionTimestamp).toBeUndefined();
  }
});

it("waits for a set in ramet set scale, and reports why it cannot be filled", async () => {
  const pool = await world();
  await pool.create({ replicas: 1, template: template() });
  await pool.settled(1);
  const ramet = async (...args: string[]) => {
    const io = memoryIo({ environment: {} });
    const exitCode = await runProgram(io, [...args, "--kubeconfig", cluster.kubeconfigPath, "-n", pool.namespace]);
    return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
  };
  expect(await ramet("set", "scale", "pool", "3")).toEqual({
    exitCode: 0,
    stdout: "set pool scaled to 3\n",
    stderr: "",
  });
  const { stdout } = await ramet("set", "ls");
  expect(stdout).toMatch(
    /^NAME +REPLICAS +AVAILABLE +UPDATED +REVISION +AGE +MESSAGE\npool +3 +3 +3 +[a-z0-9]{9} +\d+[sm]\S*\n$/,
  );
  expect((await ramet("get", "sbs", "-o", "name")).stdout).toBe("pool\n");
  await pool.patch({ template: { spec: { containers: [] } } });
  const rejected = await ramet("set", "scale", "pool", "4");
  expect(rejected).toMatchObject({ exitCode: 1, stdout: "" });
  expect(rejected.stderr).toContain("The set pool cannot be filled: spec.template.spec.containers");
  expect(await ramet("set", "scale", "other", "1")).toMatchObject({ exitCode: 3 });
  expect(await ramet("set", "rm", "pool")).toMatchObject({ exitCode: 0, stdout: "set pool removed\n" });
  await ownedAndTemplates(pool).toEqual([0, 0]);
});
