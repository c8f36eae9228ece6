import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { refOf } from "../../src/kube/resource-ref.ts";
import { CommandLine } from "../../examples/walkthrough/command-line.ts";
import { NamedSnapshot, namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { SandboxSet, sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import { answerOf } from "../engine/answer-of.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";
import { providerTexts } from "./provider-texts.ts";

/**
 * The program of the README, on a cluster on one machine, with the stand-in for Pulumi's engine. The tests depend on
 * their order.
 */
let cluster: TestCluster;
let world: ProgramWorld;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  world = await openProgram("examples/local", { kubeconfig: cluster.directory.kubeconfig });
  // Three replicas are enough for the test.
  await world.edit("replicas: 10", "replicas: 3");
});

afterAll(async () => {
  await world.remove();
  await cluster.remove();
});

it("matches the program in the README and the guide", async () => {
  const [program = "", ...pages] = await Promise.all(
    ["examples/local/index.ts", "README.md", "docs/tasks/pulumi.md"].map((path) => readFile(join(root, path), "utf8")),
  );
  for (const page of pages) expect(page).toContain(`\`\`\`ts\n${program}\`\`\`\n`);
});

it("shows the digest in the first preview", async () => {
  const preview = await world.engine.preview();
  expect(preview.text).not.toMatch(/error/i);
  expect(preview.succeeded).toBe(true);
  expect(preview.steps.map(({ operation }) => operation)).toEqual(preview.steps.map(() => "create"));
  expect(preview.outputs["digest"]).toMatch(/^sha256:[0-9a-f]{64}$/);
});

it("builds the snapshot, fills the pool, and starts a clone that responds at its URL", async () => {
  const up = await world.engine.up();
  expect(up).toMatchObject({ succeeded: true, outputs: { version: 1 } });
  expect(up.text).toMatch(/python-data: Step 2 of 4: run python3/);
  expect(await answerOf(String(up.outputs["url"]))).toMatch(/Directory listing/);
  expect(await linesInDev()).toMatch(/^100001 /);
  expect(await pool()).toMatchObject({ replicas: 3, availableReplicas: 3 });
});

it("serializes each provider as the pinned text", async () => {
  const state = await world.state();
  const texts = new Set([...state.matchAll(/"__provider": ?("(?:[^"\\]|\\.)*")/g)].map(([, text = ""]) => text));
  const { namedSnapshot, readiness, sandboxClone } = providerTexts;
  expect([...texts].toSorted()).toEqual([namedSnapshot, readiness, sandboxClone].map((text) => JSON.stringify(text)));
  expect(sandboxClone.length).toBeLessThan(1000);
});

it("changes nothing if the program did not change", async () => {
  const again = await world.engine.up();
  expect(again).toMatchObject({ succeeded: true, text: "" });
});

it("previews which step is rebuilt and which set rolls, and applies it", async () => {
  await world.edit("--rows 100000", "--rows 200000");
  const preview = await world.engine.preview();
  expect(preview.text).toMatch(
    /python-data: recipe\[1\] "… --rows 100000" => "… --rows 200000"; digest sha256:[0-9a-f]{12}… => sha256:[0-9a-f]{12}…; rebuilds from step 2 of 4; pool rolls 3 sandboxes/,
  );
  expect(changed(preview.steps)).toEqual([
    ["python-data", "update"],
    ["pool", "update"],
    ["pool-ready", "update"],
  ]);
  const up = await world.engine.up();
  expect(up).toMatchObject({ succeeded: true, outputs: { version: 2, digest: preview.outputs["digest"] } });
  expect(await cachedSteps()).toEqual([true, false, false, false]);
  expect(await pool()).toMatchObject({ availableReplicas: 3, updatedAvailableReplicas: 3 });
});

it("builds nothing if the change is reverted", async () => {
  await world.edit("--rows 200000", "--rows 100000");
  const preview = await world.engine.preview();
  expect(preview.text).toMatch(/digest is kept as version 1: no rebuild; pool rolls 3 sandboxes/);
  const up = await world.engine.up();
  expect(up).toMatchObject({ succeeded: true, outputs: { version: 1 } });
  expect(up.text).not.toMatch(/Step|Starting/);
});

it("previews from the state if the cluster is unreachable", async () => {
  await world.edit("--rows 100000", "--rows 200000");
  const kubeconfig = await world.unreachable(cluster.directory.kubeconfig);
  const preview = await world.engine.with({ kubeconfig }).preview();
  await world.edit("--rows 200000", "--rows 100000");
  expect(preview.text).toMatch(/digest is kept as version 2: no rebuild/);
  expect(preview.text).toMatch(/Cannot read the cluster/);
  expect(preview.succeeded).toBe(true);
});

it("is destroyed and keeps the versions of the snapshot", async () => {
  const destroyed = await world.engine.destroy();
  expect(destroyed.succeeded).toBe(true);
  const order = destroyed.steps.map(({ name }) => name);
  expect(order.indexOf("python-data")).toBeGreaterThan(Math.max(order.indexOf("dev"), order.indexOf("pool")));
  expect(order.indexOf("python")).toBeGreaterThan(order.indexOf("python-data"));
  const client = await cluster.client();
  const left = await client.resource(sets, (value) => SandboxSet.parse(value)).list({ namespace: "default" });
  expect(left.items).toEqual([]);
});

const root = join(import.meta.dirname, "../..");
const sets = refOf(sandboxSetKind);
const snapshots = refOf(namedSnapshotKind);

async function pool() {
  const client = await cluster.client();
  const found = await client
    .resource(sets, (value) => SandboxSet.parse(value))
    .get({ namespace: "default", name: "pool" });
  return found.status;
}

/** Whether each step of the latest build came from the cache. */
async function cachedSteps(): Promise<(boolean | undefined)[]> {
  const client = await cluster.client();
  const found = await client
    .resource(snapshots, (value) => NamedSnapshot.parse(value))
    .get({ namespace: "default", name: "python-data" });
  return (found.status?.steps ?? []).map(({ cached }) => cached);
}

async function linesInDev(): Promise<string> {
  const { kubeconfig: kubeconfigPath } = cluster.directory;
  const signal = AbortSignal.timeout(60_000);
  const commandLine = new CommandLine({ kubeconfigPath, onProgress: () => undefined, signal });
  return commandLine.ramet(["sandbox", "exec", "dev", "--", "wc", "-l", "/data/table.csv"]);
}

function changed(steps: { name: string; operation: string }[]): string[][] {
  return steps.filter(({ operation }) => operation !== "same").map(({ name, operation }) => [name, operation]);
}
