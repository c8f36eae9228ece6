import { Sandbox, SandboxNotFoundError } from "e2b";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { ClientWorld } from "./client-world.ts";

/** The current JavaScript SDK of E2B, unmodified, over a real local cluster. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;

beforeAll(async () => {
  world = await ClientWorld.shared("e2b-js");
  options = await world.connection();
});
afterAll(() => world.close());

const create = (template = "base", more: object = {}) => Sandbox.create(template, { ...options, ...more });

async function all<T>(paginator: { hasNext: boolean; nextItems(): Promise<T[]> }): Promise<T[]> {
  const items: T[] = [];
  while (paginator.hasNext) items.push(...(await paginator.nextItems()));
  return items;
}

/** A program whose state is in its memory: it counts the lines that it reads from a pipe. */
const counter = `mkfifo /tmp/in && python3 -c '
import sys
n = 0
while True:
    for line in open("/tmp/in"):
        n += 1
        open("/tmp/count", "w").write(str(n))
'`;

/** Sends one line to the counter. @returns what it has counted */
async function count(sandbox: Sandbox, expected: string): Promise<void> {
  await sandbox.commands.run("echo >/tmp/in");
  await expect.poll(() => sandbox.files.read("/tmp/count")).toBe(expected);
}

describe("a sandbox", () => {
  it("runs commands with its variables, and serves files", async () => {
    const sandbox = await create("base", { envs: { GREETING: "hello" }, metadata: { owner: "a&b=c" } });
    expect(await sandbox.isRunning()).toBe(true);
    const { stdout, exitCode } = await sandbox.commands.run("echo $GREETING");
    expect({ stdout, exitCode }).toEqual({ stdout: "hello\n", exitCode: 0 });
    await expect(sandbox.commands.run("exit 3")).rejects.toThrow("exit status 3");
    await sandbox.files.write("/tmp/a", "text");
    expect(await sandbox.files.read("/tmp/a")).toBe("text");
    expect((await sandbox.files.list("/tmp")).map(({ name }) => name)).toContain("a");
    expect(await sandbox.getInfo()).toMatchObject({
      state: "running",
      templateId: "base",
      metadata: { owner: "a&b=c" },
    });
    expect(await sandbox.kill()).toBe(true);
    // The deletion is in progress for as long as programs are still ending.
    await expect.poll(() => sandbox.kill()).toBe(false);
    expect(await sandbox.isRunning()).toBe(false);
    await expect(sandbox.getInfo()).rejects.toThrow(SandboxNotFoundError);
  });

  it.each(["base", "set"])("from a %s shows its variables to programs, and its use to clients", async (kind) => {
    if (kind === "set") await world.createSet("observed", 1);
    const template = kind === "set" ? "observed" : "base";
    const sandbox = await create(template, kind === "set" ? {} : { envs: { E2B_TEAM_ID: "forged" } });
    const { stdout } = await sandbox.commands.run("env | grep ^E2B_ | sort");
    expect(stdout.trim().split("\n")).toEqual([
      "E2B_SANDBOX=true",
      `E2B_SANDBOX_ID=${sandbox.sandboxId}`,
      `E2B_TEAM_ID=${world.namespace}`,
      `E2B_TEMPLATE_ID=${template}`,
    ]);
    const [sample, ...others] = await sandbox.getMetrics();
    const { cpuCount, memoryMB } = await sandbox.getInfo();
    expect({ cpuCount, memoryMB }).toEqual({
      cpuCount: sample?.cpuCount,
      memoryMB: Math.floor((sample?.memTotal ?? 0) / 2 ** 20),
    });
    expect(others).toEqual([]);
    expect(sample?.memTotal).toBeGreaterThan(0);
    expect(await sandbox.getMetrics({ end: new Date(0) })).toEqual([]);
    await sandbox.pause();
    expect(await sandbox.getMetrics()).toEqual([]);
    expect(await sandbox.getInfo()).toMatchObject({ state: "paused" });
    await sandbox.kill();
    await expect(sandbox.getMetrics()).rejects.toThrow(SandboxNotFoundError);
  });

  it("has the output of its entrypoint as its log", async () => {
    const command = ["sh", "-c", "echo first; echo second; sleep infinity"];
    await world.createSet("talking", 1, {
      template: { spec: { containers: [{ name: "main", image: "python", command }] } },
    });
    const sandbox = await create("talking");
    const read = async (path: string): Promise<unknown> => {
      const response = await fetch(`${options.apiUrl}${path}`, { headers: { "x-api-key": options.apiKey } });
      return [response.status, await response.json()];
    };
    const entry = (message: string) => expect.objectContaining({ message, level: "info", fields: {} }) as unknown;
    const path = `/sandboxes/${sandbox.sandboxId}/logs`;
    await expect.poll(() => read(`/v2${path}`)).toEqual([200, { logs: [entry("first"), entry("second")] }]);
    expect(await read(`/v2${path}?direction=backward&limit=1`)).toEqual([200, { logs: [entry("second")] }]);
    expect(await read(`/v2${path}?search=fir`)).toEqual([200, { logs: [entry("first")] }]);
    expect(await read(`/v2${path}?level=error`)).toEqual([200, { logs: [] }]);
    expect(await read(`${path}?limit=1`)).toMatchObject([
      200,
      { logs: [{ line: expect.stringContaining("first") as unknown }] },
    ]);
    await sandbox.kill();
  });

  it("is found by its metadata, page by page, newest first", async () => {
    const made = [
      await create("base", { metadata: { group: "x" } }),
      await create("base", { metadata: { group: "x" } }),
    ];
    const query = { metadata: { group: "x" } };
    const listed = await all(Sandbox.list({ ...options, query, limit: 1 }));
    expect(listed.map(({ sandboxId }) => sandboxId)).toEqual(made.map(({ sandboxId }) => sandboxId).toReversed());
    expect(await all(Sandbox.list({ ...options, query: { metadata: { group: "y" } } }))).toEqual([]);
    for (const sandbox of made) await sandbox.kill();
  });

  it("is deleted when its time is over, and connecting never shortens the time", async () => {
    const sandbox = await create("base", { timeoutMs: 600_000 });
    const end = async () => (await sandbox.getInfo()).endAt.getTime();
    const first = await end();
    await sandbox.connect({ timeoutMs: 60_000 });
    expect(await end()).toBe(first);
    await sandbox.connect({ timeoutMs: 1_200_000 });
    expect(await end()).toBeGreaterThan(first);
    await sandbox.setTimeout(1_000);
    await expect.poll(() => sandbox.isRunning()).toBe(false);
    await expect.poll(() => sandbox.kill()).toBe(false);
  });

  it("is paused and resumed with its processes, several times", async () => {
    const sandbox = await create();
    await sandbox.commands.run(counter, { background: true });
    await expect.poll(() => sandbox.files.exists("/tmp/in")).toBe(true);
    for (const round of ["1", "2", "3"]) {
      await count(sandbox, round);
      expect(await sandbox.pause()).toBe(true);
      expect(await sandbox.pause()).toBe(false);
      expect(await sandbox.isRunning()).toBe(false);
      const paused = await all(Sandbox.list({ ...options, query: { state: ["paused"] } }));
      expect(paused.map(({ sandboxId }) => sandboxId)).toContain(sandbox.sandboxId);
      const same = await Sandbox.connect(sandbox.sandboxId, options);
      expect(same.sandboxId).toBe(sandbox.sandboxId);
    }
    await count(sandbox, "4");
    await sandbox.pause();
    expect(await sandbox.kill()).toBe(true);
    await expect(Sandbox.connect(sandbox.sandboxId, options)).rejects.toThrow(SandboxNotFoundError);
  });

  it("continues with its processes for the same client when somebody deletes its Pod, as a drain does", async () => {
    const sandbox = await create();
    await sandbox.commands.run(counter, { background: true });
    await expect.poll(() => sandbox.files.exists("/tmp/in")).toBe(true);
    await count(sandbox, "1");
    const objectOf = async () => {
      const { items } = await world.client.of(sandboxKind).list();
      return items.find(({ metadata }) => metadata.uid.replaceAll("-", "") === sandbox.sandboxId)!;
    };
    const { metadata, status } = await objectOf();
    await world.client.resource(coreResources.pods).delete(metadata);
    await expect
      .poll(async () => (await objectOf()).status, { timeout: 30_000 })
      .toMatchObject({
        phase: "Running",
        ramet: { disruption: { podUID: status?.podInfo?.podUID, outcome: "Migrated" } },
      });
    // Neither the SDK's object nor its token has changed.
    await count(sandbox, "2");
    await sandbox.kill();
  });

  it("is paused again when its time is over, if it was created so", async () => {
    const sandbox = await create("base", { timeoutMs: 600_000, lifecycle: { onTimeout: "pause" } });
    for (const _ of [1, 2]) {
      await sandbox.setTimeout(1_000);
      await expect.poll(async () => (await sandbox.getInfo()).state).toBe("paused");
      await expect.poll(() => sandbox.pause()).toBe(false);
      await sandbox.connect({ timeoutMs: 600_000 });
      expect(await sandbox.getInfo()).toMatchObject({ state: "running", lifecycle: { onTimeout: "pause" } });
    }
    await sandbox.kill();
  });

  it("loses its processes but no files in a pause without memory", async () => {
    const sandbox = await create();
    await sandbox.files.write("/var/kept", "yes");
    await sandbox.commands.run("sleep 1000", { background: true });
    await sandbox.pause({ keepMemory: false });
    await sandbox.connect();
    expect(await sandbox.files.read("/var/kept")).toBe("yes");
    expect((await sandbox.commands.list()).map(({ args }) => args.join(" "))).not.toContain("sleep 1000");
    // The next pause keeps the memory again.
    await sandbox.commands.run(counter, { background: true });
    await expect.poll(() => sandbox.files.exists("/tmp/in")).toBe(true);
    await count(sandbox, "1");
    await sandbox.pause();
    await sandbox.connect();
    await count(sandbox, "2");
    await sandbox.kill();
  });
});

describe("a snapshot", () => {
  it("starts sandboxes with the memory of its source, which keeps running", async () => {
    const source = await create();
    await source.commands.run(counter, { background: true });
    await expect.poll(() => source.files.exists("/tmp/in")).toBe(true);
    await count(source, "1");
    const snapshot = await source.createSnapshot();
    const clones = await Promise.all([create(snapshot.snapshotId), create(snapshot.snapshotId)]);
    for (const clone of clones) await count(clone, "2");
    await count(source, "2");
    await source.kill();
    const later = await create(snapshot.snapshotId);
    await count(later, "2");
    expect((await later.getInfo()).templateId).toBe(snapshot.snapshotId);
    expect(await Sandbox.deleteSnapshot(snapshot.snapshotId, options)).toBe(true);
    expect(await Sandbox.deleteSnapshot(snapshot.snapshotId, options)).toBe(false);
    await expect(create(snapshot.snapshotId)).rejects.toThrow("404");
    for (const clone of [...clones, later]) await clone.kill();
  });

  it("is listed for its source, and one with a name moves to the newest state", async () => {
    const sandbox = await create();
    const unnamed = await sandbox.createSnapshot();
    await sandbox.files.write("/tmp/state", "first");
    const first = await sandbox.createSnapshot({ name: "state" });
    await sandbox.files.write("/tmp/state", "second");
    const second = await sandbox.createSnapshot({ name: "state" });
    expect(second.snapshotId).not.toBe(first.snapshotId);
    const listed = await all(Sandbox.listSnapshots({ ...options, sandboxId: sandbox.sandboxId }));
    expect(listed.map(({ snapshotId }) => snapshotId).toSorted()).toEqual(
      [unnamed.snapshotId, first.snapshotId, second.snapshotId].toSorted(),
    );
    const clone = await create("state");
    expect(await clone.files.read("/tmp/state")).toBe("second");
    const earlier = await create(first.snapshotId);
    expect(await earlier.files.read("/tmp/state")).toBe("first");
    await sandbox.pause();
    await expect(sandbox.createSnapshot()).rejects.toThrow(SandboxNotFoundError);
    expect(await Sandbox.deleteSnapshot(first.snapshotId, options)).toBe(true);
    expect(await Sandbox.deleteSnapshot(second.snapshotId, options)).toBe(true);
    for (const each of [sandbox, clone, earlier]) await each.kill();
  });

  it("forks a sandbox into several at once", async () => {
    const sandbox = await create();
    await sandbox.files.write("/tmp/a", "text");
    const forks = await sandbox.fork({ count: 2 });
    const texts = forks.map((fork) => (fork instanceof Sandbox ? fork.files.read("/tmp/a") : Promise.reject(fork)));
    expect(await Promise.all(texts)).toEqual(["text", "text"]);
    for (const each of [sandbox, ...forks]) if (each instanceof Sandbox) await each.kill();
  });
});

describe("a set", () => {
  it("gives its ready sandboxes to clients, and restores snapshots in them", async () => {
    await world.createSet("pool", 2);
    const claimed = await create("pool", { envs: { NAME: "value" } });
    expect((await claimed.commands.run("echo $NAME")).stdout).toBe("value\n");
    await claimed.files.write("/tmp/a", "text");
    const { snapshotId } = await claimed.createSnapshot();
    const clone = await create(snapshotId);
    expect(await clone.files.read("/tmp/a")).toBe("text");
    for (const each of [claimed, clone]) await each.kill();
  });
});

describe("a key", () => {
  it("reaches nothing in another namespace", async () => {
    const sandbox = await create();
    const { snapshotId } = await sandbox.createSnapshot();
    const other = await world.connection("e2b-js-other", "agent");
    const missing = SandboxNotFoundError;
    await expect(Sandbox.getInfo(sandbox.sandboxId, other)).rejects.toThrow(missing);
    await expect(Sandbox.connect(sandbox.sandboxId, other)).rejects.toThrow(missing);
    await expect(Sandbox.pause(sandbox.sandboxId, other)).rejects.toThrow(missing);
    expect(await Sandbox.kill(sandbox.sandboxId, other)).toBe(false);
    expect(await Sandbox.deleteSnapshot(snapshotId, other)).toBe(false);
    await expect(Sandbox.create(snapshotId, other)).rejects.toThrow("404");
    expect(await all(Sandbox.list(other))).toEqual([]);
    expect(await all(Sandbox.listSnapshots(other))).toEqual([]);
    expect(await sandbox.kill()).toBe(true);
  });

  it("may do only what RBAC allows its service account", async () => {
    const limited = await world.connection(world.namespace, "reader");
    await world.createAccount(world.namespace, "reader", [
      { apiGroups: ["agents.kruise.io"], resources: ["sandboxes"], verbs: ["get", "list"] },
    ]);
    expect(await all(Sandbox.list(limited))).toBeInstanceOf(Array);
    await expect(Sandbox.create("base", limited)).rejects.toThrow("may not create sandboxes");
  });

  it("has limits of its own, and stops working as soon as it is revoked", async () => {
    const limited = await world.connection(world.namespace, "limited", { sandboxes: 1 });
    const one = await Sandbox.create("base", limited);
    await expect(Sandbox.create("base", limited)).rejects.toThrow("and may have 1");
    await one.kill();
    await world.client
      .resource({ group: "ramet.dev", version: "v1alpha1", plural: "apikeys", kind: "ApiKey", namespaced: true })
      .delete({ namespace: world.namespace, name: "limited" });
    await expect.poll(() => Sandbox.list(limited).nextItems().catch(String)).toContain("AuthenticationError");
  });
});
