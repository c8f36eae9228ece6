import { expect, it, vi } from "vitest";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { silentLog } from "../../base/log.ts";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Engines } from "../images/engines.ts";
import { dropEngines, type EngineUpkeepOptions, runEngineUpkeep } from "./engine-upkeep.ts";

const [current, first, second, named] = ["c", "1", "2", "3"].map((digit) => digit.repeat(12)) as [
  string,
  string,
  string,
  string,
];
const entry = (image: string) => ({ image, name: image, architecture: "amd64" });
const checkpoint = (engineId: string) =>
  ({
    metadata: { name: engineId },
    status: { ramet: { parts: [{ contents: ["memory", "filesystem"], needs: { engineId } }] } },
  }) as unknown as Checkpoint;
const sandbox = (engine: string, phase: string) => ({ status: { phase, ramet: { engine } } }) as unknown as Sandbox;

/** A stand-in for the informers: lists whose cached part can lag. */
function world() {
  const saved: [string, unknown][] = [];
  const api = { isReachable: true };
  const engines = new Engines(
    { cellImage: "cell:9", cellEngine: current, earlierCellImages: new Map([[named, "cell:named"]]) },
    {
      entries: new Map([
        [first, entry("cell:1")],
        [second, entry("cell:2")],
      ]),
      save: (id, value) => Promise.resolve(api.isReachable && saved.push([id, value]) > 0),
      read: () => Promise.resolve(new Map()),
    },
  );
  const cached = { checkpoints: [] as Checkpoint[], sandboxes: [] as Sandbox[] };
  const listed = { checkpoints: [] as Checkpoint[], sandboxes: [] as Sandbox[] };
  const informer = (kind: "checkpoints" | "sandboxes") => ({
    store: { list: () => cached[kind] },
    resource: { list: () => Promise.resolve({ items: listed[kind] }) },
  });
  const informers = { checkpoints: informer("checkpoints"), sandboxes: informer("sandboxes") };
  const options = { engines, informers, log: silentLog } as unknown as EngineUpkeepOptions;
  let before = new Set<string>();
  return {
    api,
    engines,
    saved,
    cached,
    listed,
    options,
    check: async () => {
      before = await dropEngines(options, before, new AbortController().signal);
    },
  };
}

it("forgets an engine that nothing needs in two checks in a row, but not the current one and those of options", async () => {
  const { engines, saved, cached, listed, check } = world();
  for (const lists of [cached, listed]) lists.checkpoints.push(checkpoint(first));
  await check();
  expect(engines.list().has(second)).toBe(true);
  await check();
  expect([...engines.list().keys()].sort()).toEqual([first, named, current].sort());
  expect(saved.at(-1)).toEqual([second, null]);
  await check();
  expect(engines.list().size).toBe(3);
});

it("keeps an engine for a running sandbox, and for objects that only the API server shows", async () => {
  const { engines, cached, listed, check } = world();
  for (const lists of [cached, listed]) lists.sandboxes.push(sandbox(first, "Running"), sandbox(second, "Failed"));
  listed.checkpoints.push(checkpoint(second));
  for (let times = 0; times < 3; times++) await check();
  expect([engines.list().has(first), engines.list().has(second)]).toEqual([true, true]);
});

it("starts again with two checks when an engine was needed in between", async () => {
  const { engines, cached, listed, check } = world();
  await check();
  for (const lists of [cached, listed]) lists.checkpoints.push(checkpoint(first), checkpoint(second));
  await check();
  for (const lists of [cached, listed]) lists.checkpoints.splice(0);
  await check();
  expect(engines.list().size).toBe(4);
  await check();
  expect(engines.list().size).toBe(2);
});

it("keeps an engine whose drop the cluster has not remembered, and drops it in the next check", async () => {
  const { api, engines, saved, check } = world();
  await check();
  api.isReachable = false;
  await check();
  expect([engines.list().has(first), engines.list().has(second)]).toEqual([true, true]);
  api.isReachable = true;
  await check();
  expect([engines.list().has(first), engines.list().has(second)]).toEqual([false, false]);
  expect(saved.slice(-2)).toEqual([
    [first, null],
    [second, null],
  ]);
});

it.each([
  [undefined, 600_000],
  [2_000, 2_000],
])("pauses before each check, as long as the option %j says", async (pauseMilliseconds, expected) => {
  const { engines, options } = world();
  const clock = new ManualClock();
  const ending = new AbortController();
  const running = runEngineUpkeep({ ...options, seesAll: true, clock, pauseMilliseconds }, ending.signal);
  for (const sizeAfter of [4, 2]) {
    clock.advance(expected - 1);
    expect(engines.list().size).toBe(4);
    clock.advance(1);
    await vi.waitUntil(() => clock.waits[0] === expected);
    expect(engines.list().size).toBe(sizeAfter);
  }
  ending.abort();
  await running;
});
