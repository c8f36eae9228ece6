import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { checkpointIdOf } from "../../src/api/state/checkpoint.ts";
import { openCluster, type Cluster } from "./controllers-cluster.ts";
import { counterPort } from "../setup/counter.ts";
import { count, counterTemplate, slowTemplate } from "./counter.ts";
import { realNode } from "./controllers-real-node.ts";

/** Tests `ramet rollback` and `ramet fork` with real cells. */
let cluster: Cluster;
let directory: string;

beforeAll(async () => {
  cluster = await openCluster({ startNode: realNode() });
  directory = await mkdtemp(join(tmpdir(), "ramet-rollback-"));
  await cluster.namespace("t");
  await cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name: "counter", namespace: "t" },
    spec: { template: counterTemplate },
  });
  await cluster.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "SandboxTemplate",
    metadata: { name: "slow", namespace: "t" },
    spec: { template: slowTemplate },
  });
  expect(await ramet("sandbox", "create", "--template", "counter", "--name", "a")).toMatchObject({ exitCode: 0 });
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
  await cluster.close();
});

/** Starts a command; `ended` resolves to its exit code. */
function start(...args: string[]) {
  const environment = { HOME: directory, KUBECONFIG: cluster.kubeconfigPath };
  const io = memoryIo({ environment, progressIsSeen: true });
  return { io, ended: runProgram(io, [...args, "-n", "t"]) };
}

async function ramet(...args: string[]) {
  const { io, ended } = start(...args);
  const exitCode = await ended;
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}
const checkpointNames = async (): Promise<string[]> => {
  const { items } = await cluster.seen.checkpoints.resource.list({ namespace: "t" });
  return items.filter((one) => one.metadata.deletionTimestamp === undefined).map(({ metadata }) => metadata.name);
};

it("rolls a sandbox back to the id or name of a checkpoint, any number of times", async () => {
  expect(await count(cluster, "a")).toBe(1);
  const { stdout } = await ramet("checkpoint", "create", "a", "--name", "one");
  const id = stdout.trim();
  expect([await count(cluster, "a"), await count(cluster, "a")]).toEqual([2, 3]);
  const first = await ramet("rollback", "a", id);
  expect(first.exitCode, first.stderr).toBe(0);
  expect(first.stdout).toMatch(
    new RegExp(
      `^sandbox a rolled back to ${id}\n` +
        "ended: 1 process \\(python3[\\d.]*\\)\nrunning: 1 process \\(python3[\\d.]*\\)\n$",
    ),
  );
  expect(await count(cluster, "a")).toBe(2);

  const again = await ramet("rollback", "a", "one", "-o", "json");
  expect(again.exitCode, again.stderr).toBe(0);
  const one = { processes: 1, names: [expect.stringContaining("python3")] };
  expect(JSON.parse(again.stdout)).toMatchObject({
    kind: "Sandbox",
    status: { ramet: { restoredFrom: id, rollback: { programs: { ended: one, running: one } } } },
  });
  expect(await count(cluster, "a")).toBe(2);
});

it("reports why a rollback failed and that nothing changed, and continues one without waiting", async () => {
  const refused = await ramet("rollback", "a", "nothing-there");
  expect(refused).toMatchObject({ exitCode: 3, stdout: "" });
  expect(refused.stderr).toContain(
    "error: The sandbox a was not rolled back and is unchanged: No checkpoint in the namespace t has the id nothing-there",
  );
  expect(refused.stderr).toContain("[NotFound]");
  expect(await count(cluster, "a")).toBe(3);
  expect(await ramet("rollback", "nobody", "one")).toMatchObject({ exitCode: 3 });

  const late = await ramet("rollback", "a", "one", "--timeout", "1ms");
  expect(late).toMatchObject({ exitCode: 4, stdout: "" });
  expect(late.stderr).toContain("The request stays");
  const next = await ramet("rollback", "a", "one", "--no-wait");
  expect(next.stdout).toMatch(/^sandbox a is being rolled back to one-[0-9a-f]{12}\n$/);
  await cluster.sandbox("t/a", ({ metadata, status }) => {
    const rollback = status?.ramet?.rollback;
    const asked = metadata.annotations?.["ramet.dev/rollback-request"] !== undefined;
    return asked && status?.phase === "Running" && rollback !== undefined && rollback.checkpointId === undefined;
  });
});

it("rolls back a paused sandbox, which stays paused", async () => {
  await ramet("sandbox", "create", "--template", "counter", "--name", "b");
  await ramet("sandbox", "pause", "b");
  const { exitCode, stdout, stderr } = await ramet("rollback", "b", "one");
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toMatch(/^sandbox b rolled back to \S+\n$/);
  expect(cluster.seen.sandboxes.store.get("t/b")?.status?.phase).toBe("Paused");
});

it("returns from a rollback without memory when the probes have found that the program can be used", async () => {
  await ramet("sandbox", "create", "--template", "slow", "--name", "slow");
  const { stdout } = await ramet("checkpoint", "create", "slow", "--contents", "filesystem");
  const rolledBack = await ramet("rollback", "slow", stdout.trim());
  expect(rolledBack.exitCode, rolledBack.stderr).toBe(0);
  expect(rolledBack.stdout).toContain("\nended: all processes, with the Pod\n");
  const { status } = await cluster.seen.sandboxes.resource.get({ namespace: "t", name: "slow" });
  expect((await fetch(`http://${status?.sandboxIp ?? ""}:${counterPort}/`)).ok).toBe(true);
});

it("creates clones that continue from their source's state, and leaves no checkpoint", async () => {
  const before = await checkpointNames();
  expect(await ramet("sandbox", "create", "--template", "counter", "--name", "source")).toMatchObject({ exitCode: 0 });
  expect([await count(cluster, "source"), await count(cluster, "source")]).toEqual([1, 2]);
  const forked = await ramet("fork", "source", "--count", "2");
  expect(forked.exitCode, forked.stderr).toBe(0);
  const names = forked.stdout.trim().split("\n");
  expect(names).toEqual([expect.stringMatching(/^source-\w{5}$/), expect.stringMatching(/^source-\w{5}$/)]);
  for (const name of ["source", ...names]) expect(await count(cluster, name)).toBe(3);
  expect(await checkpointNames()).toEqual(before);
});

it("prints the ready clones when another clone fails", async () => {
  await ramet("sandbox", "create", "--template", "counter", "--name", "try-2");
  const forked = await ramet("fork", "source", "--count", "3", "--name-prefix", "try", "--keep-checkpoint");
  expect(forked).toMatchObject({ exitCode: 1, stdout: "try-1\ntry-3\n" });
  expect(forked.stderr).toContain("error: The sandbox try-2 already exists in namespace t");
  const kept = /The checkpoint (\S+) is kept/.exec(forked.stderr)?.[1] ?? "";
  expect(await ramet("checkpoint", "get", kept)).toMatchObject({ exitCode: 0 });
  expect([await count(cluster, "try-1"), await count(cluster, "try-3"), await count(cluster, "try-2")]).toEqual([
    4, 4, 1,
  ]);
});

it("leaves a checkpoint with a TTL when a fork times out during the capture", async () => {
  const before = await checkpointNames();
  const late = await ramet("fork", "source", "--timeout", "1ms");
  expect(late).toMatchObject({ exitCode: 4, stdout: "" });
  const [name = ""] = (await checkpointNames()).filter((one) => !before.includes(one));
  const { spec } = await cluster.checkpoint(`t/${name}`, ({ status }) => status?.phase === "Succeeded");
  expect(spec.ttlAfterFinished).toBe("1d");
});

/**
 * Starts a fork into `<prefix>-1` and `-2` and stops the controllers, so that its capture stays in progress. Resolves when both
 * clones have been requested.
 */
async function startedFork(source: string, prefix: string) {
  const before = await checkpointNames();
  await cluster.stopControllers();
  const running = start("fork", source, "--count", "2", "--name-prefix", prefix);
  const made = async () => (await checkpointNames()).filter((name) => !before.includes(name));
  await expect.poll(made).toHaveLength(1);
  const { checkpoints, sandboxes } = cluster.seen;
  const { metadata } = await checkpoints.resource.get({ namespace: "t", name: (await made())[0] ?? "" });
  const status = { phase: "Creating", checkpointId: checkpointIdOf(metadata) };
  await checkpoints.resource.mergePatch(metadata, { status }, { subresource: "status" });
  for (const number of [1, 2]) {
    const at = { namespace: "t", name: `${prefix}-${number}` };
    await expect.poll(() => sandboxes.resource.find(at)).toBeDefined();
  }
  return running;
}

it("creates the clones even if the command is interrupted during the capture", async () => {
  const now = await count(cluster, "source");
  const { io, ended } = await startedFork("source", "left");
  io.interrupt();
  expect(await ended).toBe(130);
  expect(io.written("stderr")).toContain("The clones left-1, left-2 will still be created.\n");
  await cluster.startControllers();
  expect([await count(cluster, "left-1"), await count(cluster, "left-2")]).toEqual([now + 1, now + 1]);
});

it("leaves no clone when the capture fails", async () => {
  await ramet("sandbox", "create", "--template", "counter", "--name", "brief");
  const { io, ended } = await startedFork("brief", "never");
  await cluster.seen.pods.resource.delete({ namespace: "t", name: "brief" });
  await cluster.untilDeleted("pods", "t/brief");
  await cluster.startControllers();
  expect(await ended).toBe(1);
  expect(io.written("stderr")).toMatch(/error: The checkpoint brief-fork-\w+ failed: .*brief/);
  for (const name of ["never-1", "never-2"]) await cluster.untilDeleted("sandboxes", `t/${name}`);
});

it("rejects an impossible fork before it creates anything", async () => {
  const before = await checkpointNames();
  expect(await ramet("fork", "nobody")).toMatchObject({ exitCode: 3 });
  expect(await ramet("fork", "source", "--count", "0")).toMatchObject({ exitCode: 2 });
  expect(await ramet("fork", "source", "--name-prefix", "Not A Name")).toMatchObject({ exitCode: 2 });
  expect(await checkpointNames()).toEqual(before);
});
