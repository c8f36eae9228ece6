import { afterAll, beforeAll, expect, it } from "vitest";
import { memoryIo } from "../setup/memory-io.ts";
import { runProgram } from "../../src/cli/program.ts";
import { directoryStore } from "../../src/store/directory/store.ts";
import { openSnapshotWorld, type SnapshotWorld } from "./named-snapshot-world.ts";

/** Tests when captured steps of real builds are kept and when they are deleted with their data. */
let world: SnapshotWorld;

beforeAll(async () => {
  world = await openSnapshotWorld();
});
afterAll(() => world.close());

async function ramet(...args: string[]) {
  const io = memoryIo({ environment: { HOME: "/nowhere", KUBECONFIG: world.cluster.kubeconfigPath } });
  const exitCode = await runProgram(io, ["gc", "-n", "t", "--step-cache-bytes", "0", "-o", "json", ...args]);
  const { items } = JSON.parse(io.written("stdout") || '{"items":[]}') as {
    items: { name: string; outcome: string }[];
  };
  return { exitCode, items };
}

/** Keeps only one version, so that returning to an earlier recipe builds it again. */
const build = async (word: string, version: number) => {
  const recipe = [{ run: `date +%s%N | tee /root/${word}` }, { start: `echo ${word} > /root/word; sleep infinity` }];
  await world.apply("tool", { from: { template: { name: "base" } }, recipe, keepVersions: 1 });
  await world.until("tool", ({ status }) => status?.version === version);
  return (await world.settled("tool")).status!;
};
const steps = () =>
  world.cluster.seen.checkpoints.store.list().filter(({ metadata }) => metadata.name.startsWith("tool-step-"));
const published = async () => (await directoryStore({ root: world.cluster.storePath }).usage("t")).checkpoints;

it("keeps and reuses a step that left the recipe, until ramet gc removes it with its data", async () => {
  const one = await build("one", 1);
  await expect.poll(steps).toHaveLength(1);
  const stepOfOne = steps()[0]!.metadata.name;
  await build("two", 2);
  await expect.poll(steps).toHaveLength(2);
  const stepOfTwo = steps().find(({ metadata }) => metadata.name !== stepOfOne)!.metadata.name;
  const marked = () =>
    steps()
      .filter(({ metadata }) => metadata.annotations?.["ramet.dev/unneeded-since"] !== undefined)
      .map(({ metadata }) => metadata.name);
  await expect.poll(marked).toEqual([stepOfOne]);
  const again = await build("one", 3);
  expect(again.steps?.map(({ cached }) => cached)).toEqual([true, false]);
  expect(again.digest).toBe(one.digest);

  await expect.poll(marked).toEqual([stepOfTwo]);
  await expect.poll(published).toBe(3);
  expect((await ramet("--dry-run")).items).toMatchObject([{ name: stepOfTwo, outcome: "planned" }]);
  expect(steps()).toHaveLength(2);
  expect(await ramet()).toMatchObject({ exitCode: 0, items: [{ name: stepOfTwo, outcome: "removed" }] });
  await world.cluster.untilDeleted("checkpoints", `t/${stepOfTwo}`);
  await expect.poll(published).toBe(2);
  await expect.poll(steps).toHaveLength(1);

  // Clones and builds can still use the remaining steps.
  await world.clone("after", "tool");
  expect(await world.read("after", "/root/word")).toBe("one\n");
  expect((await build("two", 4)).steps?.map(({ cached }) => cached)).toEqual([false, false]);
}, 120_000);
