import { afterAll, beforeAll, expect, it } from "vitest";
import { TestCluster } from "../cluster/local-cluster.ts";
import { killIn, PulumiEngine } from "../engine/pulumi-engine.ts";
import { openProgram, type ProgramWorld } from "../program/program-world.ts";

/** How `pulumi` handles interrupted runs. The program needs only the plugin for dynamic resources. */
let cluster: TestCluster;
let world: ProgramWorld;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  await cluster.createSandbox("base", "import time\ntime.sleep(3600)");
  world = await openProgram("test/program/programs/dynamic", { kubeconfig: cluster.directory.kubeconfig });
});

afterAll(async () => {
  await cluster.remove();
  await world.remove();
});

it("ends pending waits after Ctrl-C, starts nothing new, and continues in the next run", async () => {
  const interrupted = new AbortController();
  const onLine = (line: string): void => {
    if (line.includes("Step 2 of 2")) interrupted.abort();
  };
  const first = await world.engine.with({ ...command("sleep 3"), signal: interrupted.signal, onLine }).up();
  expect(first.succeeded).toBe(false);
  expect(first.text).toMatch(/Waiting for the snapshot data was canceled/);
  expect(first.text).not.toMatch(/dev: /);
  const next = await world.engine.with(command("sleep 3")).up();
  expect(next).toMatchObject({ succeeded: true, outputs: { version: 1 } });
});

it("continues the work of a killed pulumi after its lock is removed", async () => {
  const renamed = command("sleep 4", { "program:name": "renamed" });
  const onLine = (line: string): void => {
    if (line.includes("Step 2 of 2")) void killIn(world.program);
  };
  const killed = await world.engine.with({ ...renamed, onLine }).up();
  expect(killed.succeeded).toBe(false);
  const locked = await world.engine.with(renamed).up();
  expect(locked.succeeded).toBe(false);
  expect(locked.text).toMatch(/locked by 1 lock.*pulumi cancel/s);
  if (!(world.engine instanceof PulumiEngine)) throw new Error("these are tests of pulumi itself");
  await world.engine.cancel();
  const next = await world.engine.with(renamed).up();
  expect(next).toMatchObject({ succeeded: true, outputs: { version: 1 } });
  expect(next.text).toMatch(/NamedSnapshot::data, interrupted while creating/);
  expect(next.text).toMatch(/renamed: version 1 is current/);
  expect(next.text).not.toMatch(/Starting the sandbox renamed/);
});

function command(text: string, more: Record<string, string> = {}): { configuration: Record<string, string> } {
  return { configuration: { "program:command": text, ...more } };
}
