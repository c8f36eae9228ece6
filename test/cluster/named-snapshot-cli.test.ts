import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { stringify } from "yaml";
import { accountToken, allowToReach, startGateway, type RunningGateway } from "../setup/gateway.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { openSnapshotWorld, type SnapshotWorld } from "./named-snapshot-world.ts";

/** Tests the named snapshot commands with real cells. */
let world: SnapshotWorld;
let directory: string;
let gateway: RunningGateway;
let token: string;

beforeAll(async () => {
  world = await openSnapshotWorld();
  const { client } = world.cluster;
  const account = { namespace: "t", name: "follower" };
  gateway = await startGateway(client);
  token = await accountToken(client, account);
  await allowToReach(client, "t", account, "exec");
  directory = await mkdtemp(join(tmpdir(), "ramet-snapshots-"));
});
afterAll(async () => {
  gateway.end();
  await gateway.ended;
  await rm(directory, { recursive: true, force: true });
  await world.close();
});

/** Starts a command; `ended` resolves to its exit code. */
function start(...args: string[]) {
  const io = memoryIo({
    environment: {
      HOME: directory,
      KUBECONFIG: world.cluster.kubeconfigPath,
      RAMET_GATEWAY: `http://127.0.0.1:${gateway.port}`,
      RAMET_GATEWAY_TOKEN: token,
    },
    progressIsSeen: true,
  });
  return { io, ended: runProgram(io, [...args, "-n", "t"]) };
}

async function ramet(...args: string[]) {
  const { io, ended } = start(...args);
  const exitCode = await ended;
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

async function manifest(word: string): Promise<string> {
  return recipeFile(word, [
    { run: "echo installing" },
    { run: `echo ${word} | tee /root/word; test ${word} != broken` },
  ]);
}

async function recipeFile(word: string, recipe: object[]): Promise<string> {
  const path = join(directory, `${word}.yaml`);
  const spec = { from: { template: { name: "base" } }, recipe };
  await writeFile(
    path,
    stringify({ apiVersion: "ramet.dev/v1alpha1", kind: "NamedSnapshot", metadata: { name: "tool" }, spec }),
  );
  return path;
}

it("follows the build with apply, step by step", async () => {
  const { exitCode, stdout, stderr } = await ramet("snapshot", "apply", "-f", await manifest("one"));
  expect(stderr).toMatch(/s {2}snapshot tool: Step 1 of 2: run echo installing\n/);
  expect(stderr).toMatch(/s {2}snapshot tool: version 1 is current\n$/);
  expect(stdout).toMatch(/^snapshot tool is at version 1 sha256:[0-9a-f]{64}\n$/);
  expect(exitCode).toBe(0);
  expect((await ramet("snapshot", "logs", "tool", "--step", "2")).stdout).toBe("one\n");
  expect((await ramet("snapshot", "ls")).stdout).toMatch(/^NAME +VERSION.*\ntool +1 +True +False +2\/2 /);
});

it("shows the steps of the build in the table of get, and only the object in JSON, YAML and names", async () => {
  const { stdout } = await ramet("snapshot", "get", "tool");
  expect(stdout.split("\n")).toEqual([
    expect.stringMatching(/^NAME +VERSION/) as string,
    expect.stringMatching(/^tool +1 /) as string,
    "",
    expect.stringMatching(/^STEP +ACTION +STATE +DURATION +CACHED$/) as string,
    expect.stringMatching(/^1 +run echo installing +Succeeded +\d+\.\ds +no$/) as string,
    expect.stringMatching(/^2 +run echo one .* +Succeeded +\d+\.\ds +no$/) as string,
    "",
  ]);
  expect(JSON.parse((await ramet("snapshot", "get", "tool", "-o", "json")).stdout)).toMatchObject({
    kind: "NamedSnapshot",
    status: { version: 1 },
  });
  expect((await ramet("snapshot", "get", "tool", "-o", "yaml")).stdout).toMatch(/^apiVersion: ramet.dev\/v1alpha1\n/);
  expect((await ramet("snapshot", "get", "tool", "-o", "name")).stdout).toBe("tool\n");
});

it("prints with diff what apply would do, and changes nothing", async () => {
  const diff = async (word: string) => (await ramet("snapshot", "diff", "-f", await manifest(word))).stdout;
  expect(await diff("one")).toBe("snapshot tool: no change: version 1 has this digest\n");
  expect(await diff("two")).toMatch(
    /^snapshot tool: sha256:[0-9a-f]{12} => sha256:[0-9a-f]{12}; rebuilds from step 2 of 2 \(run echo two /,
  );
  const review = await ramet("snapshot", "diff", "-o", "markdown", "-f", await manifest("two"));
  expect(review.stdout.split("\n").at(2)).toMatch(
    /^\| <code>tool<\/code> \| <code>a version is built after version 1<.* \| 1 of 2 \| 1, from <code>run echo two .*<.code> \| about \d+\.\d \| .*B \| {2}\| {2}\|$/,
  );
  expect((await world.settled("tool")).status?.latestVersion).toBe(1);
});

it("exits with 1, the step and its output when a build fails, and retries it with build", async () => {
  const failed = await ramet("snapshot", "apply", "-f", await manifest("broken"), "--keep-on-failure");
  expect(failed.exitCode).toBe(1);
  expect(failed.stderr).toMatch(/Step 2 of 2 .* failed: exit code 1\nbroken\n.*\[StepFailed\]/s);
  const name = await world.builderOf("tool");
  expect(await world.read(name, "/root/word")).toBe("broken\n");
  // Two simultaneous requests both get the result.
  const twice = await Promise.all([ramet("snapshot", "build", "tool"), ramet("snapshot", "build", "tool")]);
  expect(twice.map(({ exitCode }) => exitCode)).toEqual([1, 1]);
  await world.noBuilders("tool");
});

it("lists versions, rolls back and unpins", async () => {
  expect((await ramet("snapshot", "apply", "-f", await manifest("two"))).stdout).toContain("at version 2");
  const kept = await ramet("snapshot", "diff", "-f", await manifest("one"));
  expect(kept.stdout).toContain("no rebuild: digest is kept as version 1, which becomes current immediately");
  expect((await ramet("snapshot", "history", "tool")).stdout).toMatch(/\n2 \* .*template\/base.*\n1 /);
  expect((await ramet("snapshot", "rollback", "tool")).stdout).toContain("is pinned to version 1");
  expect((await world.until("tool", ({ status }) => status?.version === 1)).status?.message).toContain(
    "pinned to version 1",
  );
  expect((await ramet("snapshot", "logs", "tool", "--version", "1", "--step", "2")).stdout).toBe("one\n");
  const latest = await ramet("snapshot", "logs", "tool", "--step", "2");
  expect(latest.stdout).toBe("two\n");
  expect(latest.stderr).toContain("ramet snapshot logs tool --version 1\n");
  expect(await ramet("snapshot", "logs", "tool", "--version", "9")).toMatchObject({ exitCode: 3, stdout: "" });
  const clone = await ramet("sandbox", "create", "--from", "tool", "--name", "tool-a");
  expect(clone).toMatchObject({ exitCode: 0 });
  expect(await world.read("tool-a", "/root/word")).toBe("one\n");
  const store = ["--store-path", world.cluster.storePath];
  const compared = await ramet("snapshot", "diff", "tool@1", "tool@2", "-o", "json", ...store);
  expect(compared).toMatchObject({ exitCode: 0, stderr: "" });
  expect(JSON.parse(compared.stdout)).toMatchObject({
    recipe: [{ from: { step: 2, text: expect.stringMatching(/^run echo one/) as string }, to: { step: 2 } }],
    layers: [{ layer: 2, largest: [{ path: "root/word", change: "changed", fromBytes: 4, toBytes: 4 }] }],
    packages: [],
  });
  const tables = await ramet("snapshot", "diff", "tool@1", "tool@2");
  expect(tables.stdout).toMatch(/^STEP +tool@1 +STEP +tool@2\n2 +run echo one .* 2 +run echo two /);
  expect(tables.stdout).toMatch(/\nNOTE\nfiles and packages are not compared: no store, because /);
  expect((await ramet("snapshot", "diff")).stderr).toContain("needs either versions or -f");
  const further = await ramet("snapshot", "rollback", "tool");
  expect(further.exitCode).toBe(3);
  expect(further.stderr).toContain("Choose one of the kept versions: 1, 2");
  expect((await ramet("snapshot", "unpin", "tool")).exitCode).toBe(0);
  await world.until("tool", ({ status }) => status?.version === 2);
});

it("prints the output of running steps with logs --follow, and exits with the build's result", async () => {
  const go = "while ! test -e /tmp/go; do sleep 0.1; done";
  const follow = async (word: string, last: string) => {
    const recipe = [{ run: `echo first ${word}` }, { run: `echo started; ${go}; ${last}` }];
    await ramet("snapshot", "apply", "--no-wait", "-f", await recipeFile(word, recipe));
    const following = start("snapshot", "logs", "tool", "--follow");
    await expect.poll(() => following.io.written("stdout"), { timeout: 30_000 }).toBe(`first ${word}\nstarted\n`);
    const builder = await world.builderOf("tool");
    await world.write(builder, "/tmp/go", "");
    const exitCode = await following.ended;
    return { exitCode, stdout: following.io.written("stdout"), stderr: following.io.written("stderr") };
  };
  const good = await follow("good", "echo done");
  expect(good).toMatchObject({ exitCode: 0, stdout: "first good\nstarted\ndone\n" });
  expect(good.stderr).toContain("--- step 2\n");
  const bad = await follow("bad", "echo oh no >&2; exit 3");
  expect(bad).toMatchObject({ exitCode: 1, stdout: "first bad\nstarted\noh no\n" });
  expect(bad.stderr).toMatch(/Step 2 of 2 .* failed: exit code 3\n/);
  // For a build that has ended, the whole output is printed immediately.
  expect(await ramet("snapshot", "logs", "tool", "-f", "--step", "1")).toMatchObject({
    exitCode: 1,
    stdout: "first bad\n",
  });
  expect(await ramet("snapshot", "logs", "tool", "-f", "--version", "1")).toMatchObject({ exitCode: 2 });
});

it("rejects an invalid manifest with its file and field, and exits with 3 for a missing snapshot", async () => {
  const path = join(directory, "wrong.yaml");
  await writeFile(path, "apiVersion: ramet.dev/v1alpha1\nkind: NamedSnapshot\nmetadata: {name: x}\nspec: {from: {}}\n");
  const wrong = await ramet("snapshot", "apply", "-f", path);
  expect(wrong.exitCode).toBe(2);
  expect(wrong.stderr).toContain(
    "wrong.yaml is not a valid NamedSnapshot manifest: spec.from: from must name exactly one",
  );
  expect((await ramet("snapshot", "history", "nobody")).exitCode).toBe(3);
});

it("deletes a snapshot with rm", async () => {
  const { exitCode, stdout } = await ramet("snapshot", "rm", "tool");
  expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: "snapshot tool removed\n" });
});
