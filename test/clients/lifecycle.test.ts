import { rename, rm, writeFile } from "node:fs/promises";
import { Sandbox } from "e2b";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Sandbox as SandboxObject, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { ClientWorld } from "./client-world.ts";

/** The end of a sandbox's time, also when every server is killed before, on a real local cluster. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;

beforeAll(async () => {
  world = await ClientWorld.open();
  options = await world.connection();
});
afterAll(() => world.close());

const create = (more: object = {}) => Sandbox.create("base", { ...options, ...more });
const stateOf = async (sandbox: Sandbox) => (await sandbox.getInfo()).state;

async function objectOf({ sandboxId }: Sandbox): Promise<SandboxObject | undefined> {
  const sandboxes = world.client.of(sandboxKind);
  const { items } = await sandboxes.list({ namespace: "default" });
  return items.find(({ metadata }) => metadata.uid.replaceAll("-", "") === sandboxId);
}

/** Kills servers, and waits until others have taken their places. */
async function restart(...parts: readonly string[]): Promise<void> {
  const before = parts.map((part) => world.cluster.pid(part));
  for (const pid of before) process.kill(pid, "SIGKILL");
  const isOther = (part: string, at: number): boolean => {
    try {
      return world.cluster.pid(part) !== before[at];
    } catch {
      return false;
    }
  };
  await expect.poll(() => parts.every(isOther), { timeout: 60_000 }).toBe(true);
  // A new client API answers when it knows the sandboxes.
  const answers = () =>
    Sandbox.list(options)
      .nextItems()
      .catch(() => undefined);
  await expect.poll(answers, { timeout: 60_000 }).toBeDefined();
}

const servers = ["controller", "client-api", "gateway"];

describe("the end of the time", () => {
  it("pauses without memory each time, if the client has requested that", async () => {
    const lifecycle = { onTimeout: { action: "pause", keepMemory: false } } as const;
    const sandbox = await create({ lifecycle, timeoutMs: 600_000 });
    expect((await sandbox.getInfo()).lifecycle).toEqual({ onTimeout: "pause", autoResume: false });
    for (const round of ["1", "2"]) {
      await sandbox.files.write("/home/user/round", round);
      await sandbox.commands.run(`sleep 100${round}`, { background: true });
      await sandbox.setTimeout(1_000);
      await expect.poll(() => stateOf(sandbox)).toBe("paused");
      await sandbox.connect({ timeoutMs: 600_000 });
      expect(await sandbox.files.read("/home/user/round")).toBe(round);
      expect(await commandsOf(sandbox)).not.toContain(`sleep 100${round}`);
    }
    // A pause by the client keeps the memory.
    await sandbox.commands.run("sleep 1003", { background: true });
    await sandbox.pause();
    await sandbox.connect();
    expect(await commandsOf(sandbox)).toContain("sleep 1003");
    await sandbox.kill();
  });

  it("stays the same when every server is killed, and is then effective", async () => {
    const seconds = 30;
    const killed = await create({ timeoutMs: seconds * 1000 });
    const paused = await create({ timeoutMs: seconds * 1000, lifecycle: { onTimeout: "pause" } });
    const endOf = async (sandbox: Sandbox) => (await sandbox.getInfo()).endAt.getTime();
    const ends = [await endOf(killed), await endOf(paused)];
    // The end is in the object.
    const objects = [await objectOf(killed), await objectOf(paused)];
    expect([objects[0]?.spec.shutdownTime, objects[1]?.spec.pauseTime].map((text) => Date.parse(text ?? ""))).toEqual(
      ends,
    );
    await restart(...servers);
    expect([await endOf(killed), await endOf(paused)]).toEqual(ends);
    expect(await killed.isRunning()).toBe(true);
    // Neither happens before its time.
    const times = await Promise.all([
      timeOf(() => isEnding(killed)),
      timeOf(async () => (await objectOf(paused))?.spec.paused === true),
    ]);
    for (const [at, time] of times.entries()) expect(time).toBeGreaterThanOrEqual(ends[at] ?? Infinity);
    await expect.poll(() => stateOf(paused)).toBe("paused");
    await paused.kill();
  });

  it("is effective as soon as controllers run again, if they did not at that time", async () => {
    const killed = await create();
    const paused = await create({ lifecycle: { onTimeout: "pause" } });
    process.kill(world.cluster.pid("controller"), "SIGSTOP");
    await Promise.all([killed, paused].map((sandbox) => sandbox.setTimeout(1_000)));
    const end = Date.parse((await objectOf(killed))?.spec.shutdownTime ?? "");
    await expect.poll(() => Date.now()).toBeGreaterThan(end + 1_000);
    expect(await stateOf(killed)).toBe("running");
    await restart(...servers);
    await expect.poll(() => killed.isRunning()).toBe(false);
    await expect.poll(() => stateOf(paused)).toBe("paused");
    await paused.connect();
    expect(await paused.isRunning()).toBe(true);
    await paused.kill();
  });

  it("is the new one, if a client extends it while a server is killed", async () => {
    // The creation takes longer than 5 seconds on a busy machine.
    const sandbox = await create({ timeoutMs: 600_000 });
    await sandbox.setTimeout(5_000);
    await sandbox.setTimeout(600_000);
    await restart("controller");
    await expect.poll(() => Date.now()).toBeGreaterThan((await sandbox.getInfo()).endAt.getTime() - 595_000 + 2_000);
    expect(await sandbox.isRunning()).toBe(true);
    await sandbox.kill();
  });
});

describe("a pause that fails", () => {
  it("leaves the sandbox running, with its time as before", async () => {
    const sandbox = await create({ timeoutMs: 600_000, lifecycle: { onTimeout: "pause" } });
    const { endAt } = await sandbox.getInfo();
    const { store } = world.cluster.directory;
    await rename(store, `${store}-away`);
    await writeFile(store, "");
    await expect(sandbox.pause()).rejects.toThrow("was not paused");
    expect(await sandbox.getInfo()).toMatchObject({ state: "running", endAt });
    expect((await sandbox.commands.run("echo 1")).stdout).toBe("1\n");
    await rm(store);
    await rename(`${store}-away`, store);
    expect(await sandbox.pause()).toBe(true);
    await sandbox.kill();
  });
});

async function commandsOf(sandbox: Sandbox): Promise<string> {
  return (await sandbox.commands.list()).map(({ args }) => args.join(" ")).join("\n");
}

async function isEnding(sandbox: Sandbox): Promise<boolean> {
  const object = await objectOf(sandbox);
  return object === undefined || object.metadata.deletionTimestamp !== undefined;
}

/** When something is seen for the first time, in milliseconds since 1970. */
async function timeOf(isSo: () => Promise<boolean>): Promise<number> {
  await expect.poll(isSo, { timeout: 60_000, interval: 20 }).toBe(true);
  return Date.now();
}
