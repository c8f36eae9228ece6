import { Sandbox } from "e2b";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Sandbox as SandboxObject, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { delay, systemClock } from "../../src/base/clock.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { ClientWorld } from "./client-world.ts";

/** What clients see while a sandbox continues in another Pod, on a real local cluster. */
let world: ClientWorld;
let options: Awaited<ReturnType<ClientWorld["connection"]>>;
const namespace = "moves";

beforeAll(async () => {
  world = await ClientWorld.shared(namespace);
  options = await world.connection();
});
afterAll(() => world.close());

async function objectOf({ sandboxId }: Sandbox): Promise<SandboxObject | undefined> {
  const { items } = await world.client.of(sandboxKind).list({ namespace });
  return items.find(({ metadata }) => metadata.uid.replaceAll("-", "") === sandboxId);
}

const disruptionOf = async (sandbox: Sandbox) => (await objectOf(sandbox))?.status?.ramet?.disruption;

async function deletePod(sandbox: Sandbox): Promise<void> {
  const name = (await objectOf(sandbox))?.metadata.name ?? "";
  await world.client.resource(coreResources.pods).delete({ namespace, name });
}

/** Its memory takes about a second to be captured. It writes a text that only its memory has. */
const program = `import os, secrets, time
data, token = os.urandom(200 << 20), secrets.token_hex(8)
for number in range(100000):
    print(number, token, flush=True)
    time.sleep(0.05)`;

it("makes requests wait while the sandbox is captured and restored, and fails only those that were under way", async () => {
  const sandbox = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
  await sandbox.files.write("/tmp/program.py", program);
  const [lines, again]: [string[], string[]] = [[], []];
  const readInto = (list: string[]) => (text: string) => void list.push(...text.trim().split("\n"));
  const command = await sandbox.commands.run("python3 /tmp/program.py", {
    background: true,
    timeoutMs: 0,
    onStdout: readInto(lines),
  });
  const streamEnd = command.wait().then(
    () => "ended",
    (error: unknown) => String(error),
  );
  await expect.poll(() => lines.length, { timeout: 30_000 }).toBeGreaterThan(3);

  const calls = {
    run: () => sandbox.commands.run("echo 1"),
    list: () => sandbox.files.list("/"),
    connect: async () => (await Sandbox.connect(sandbox.sandboxId, options)).files.list("/"),
    health: async () => {
      expect(await sandbox.isRunning()).toBe(true);
    },
    state: async () => {
      expect((await sandbox.getInfo()).state).toBe("running");
    },
  };
  const failures: string[] = [];
  let isOver = false;
  const callers = Object.entries(calls).map(async ([name, call]) => {
    while (!isOver) {
      await Promise.resolve(call()).catch(() => failures.push(name));
      await delay(systemClock, 20);
    }
  });
  await deletePod(sandbox);
  await expect.poll(async () => (await disruptionOf(sandbox))?.outcome, { timeout: 60_000 }).toBe("Migrated");
  isOver = true;
  await Promise.all(callers);
  // Each caller has at most one request under way. A GET request is repeated, and the last two reach no sandbox that is captured.
  expect(failures.length).toBe(new Set(failures).size);
  expect(failures).not.toContain("health");
  expect(failures).not.toContain("state");

  // The open stream ended as in a pause, and the command did not.
  expect(await streamEnd).toContain("terminated");
  const followed = await sandbox.commands.connect(command.pid, { timeoutMs: 0, onStdout: readInto(again) });
  const next = lines.length + 20;
  await expect
    .poll(() => again.at(-1)?.split(" ")[0], { timeout: 30_000 })
    .toSatisfy((number) => Number(number) > next);
  expect(again.at(-1)?.split(" ")[1]).toBe(lines[0]?.split(" ")[1]);
  await followed.kill();
  await sandbox.kill();
});
