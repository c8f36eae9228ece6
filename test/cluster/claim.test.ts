import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { annotations, labels } from "../../src/api/names/labels.ts";
import type { RametError } from "../../src/base/errors.ts";
import { openClaimWorld, type ClaimWorld } from "./claim-world.ts";
import type { Claimer } from "./claimer.ts";

/** Claiming on a real API server. The sandboxes are stand-ins that nothing runs in: who gets which is what is proven. */
let world: ClaimWorld;
let claimers: Claimer[];
let number = 0;

beforeAll(async () => {
  world = await openClaimWorld();
  claimers = [await world.claimer(), await world.claimer(), await world.claimer()];
});
afterAll(() => world.close());

const newNamespace = () => `c${++number}`;
const nameOf = ({ sandbox }: Awaited<ReturnType<Claimer["claim"]>>) => sandbox.metadata.name;
const codeOf = (error: unknown) => (error as RametError).code;

test("a claim is one write: lock, owner, time and label are there, the set's owner reference and nothing else is gone", async () => {
  const namespace = newNamespace();
  const [before] = await world.stock(namespace, 1, { mine: "stays" });
  const [claimer] = claimers;
  await claimer!.stocked(namespace, 1);
  const writes: string[] = [];
  const counting = await world.claimer({ onRequest: ({ verb }) => verb !== "watch" && writes.push(verb) });
  await counting.stocked(namespace, 1);
  writes.length = 0;
  const { sandbox, kind } = await counting.claim({
    namespace,
    owner: "team-a",
    claimName: "claim",
    labels: { task: "7" },
    environment: { A: "1" },
    shutdownTime: "2036-01-01T00:00:00Z",
  });
  expect(writes).toEqual(["patch"]);
  expect(kind).toBe("hot");
  expect(sandbox.metadata.name).toBe(before?.metadata.name);
  expect(sandbox.metadata.ownerReferences ?? []).toEqual([]);
  expect(sandbox.metadata.labels).toMatchObject({
    [labels.sandboxPool]: "set",
    [labels.sandboxClaimed]: "true",
    [labels.claimName]: "claim",
    task: "7",
  });
  expect(sandbox.metadata.annotations).toMatchObject({
    mine: "stays",
    [annotations.owner]: "team-a",
    [annotations.initRuntimeRequest]: '{"envVars":{"A":"1"}}',
  });
  expect(sandbox.metadata.annotations?.[annotations.lock]).toMatch(/^[0-9a-f-]{36}$/);
  expect(sandbox.spec.shutdownTime).toBe("2036-01-01T00:00:00Z");
});

test("whatever number of claimers in however many processes: nobody gets what another got, and all that is there is given", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 12 }),
      fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 24 }),
      async (stocked, wishes) => {
        const namespace = newNamespace();
        await world.stock(namespace, stocked);
        await Promise.all(claimers.map((claimer) => claimer.stocked(namespace, stocked)));
        const enough = new AbortController();
        const names: string[] = [];
        const refused: string[] = [];
        const outcomes = wishes.map((process) =>
          claimers[process]!.claim({ namespace, timeoutMilliseconds: 60_000 }, enough.signal).then(
            (claimed) => names.push(nameOf(claimed)),
            (error: unknown) => refused.push(codeOf(error)),
          ),
        );
        await expect.poll(() => names.length, { interval: 5 }).toBe(Math.min(stocked, wishes.length));
        // Who got nothing goes on trying for a while.
        await new Promise((resolve) => setTimeout(resolve, 100));
        enough.abort();
        await Promise.all(outcomes);
        expect(new Set(names).size).toBe(names.length);
        expect(names).toHaveLength(Math.min(stocked, wishes.length));
        expect(refused.every((code) => code === "Canceled")).toBe(true);
        const locks = (await world.sandboxes(namespace)).flatMap(({ metadata }) => {
          const lock = metadata.annotations?.[annotations.lock];
          return lock === undefined ? [] : [lock];
        });
        expect(new Set(locks).size).toBe(names.length);
      },
    ),
    { numRuns: 12 },
  );
});

test("the same wish again finds the sandbox that it got, in this process and in another one", async () => {
  const namespace = newNamespace();
  await world.stock(namespace, 3);
  await Promise.all(claimers.map((claimer) => claimer.stocked(namespace, 3)));
  const lock = randomUUID();
  const first = await claimers[0]!.claim({ namespace, lock }).then(nameOf);
  await expect.poll(() => claimers[0]!.parts.stock.heldBy(namespace, lock)).toBeDefined();
  await expect.poll(() => claimers[1]!.parts.stock.heldBy(namespace, lock)).toBeDefined();
  await expect(claimers[0]!.claim({ namespace, lock }).then(nameOf)).resolves.toBe(first);
  await expect(claimers[1]!.claim({ namespace, lock }).then(nameOf)).resolves.toBe(first);
});

test("who waits gets what becomes ready, in the order in which they asked", async () => {
  const namespace = newNamespace();
  await world.stock(namespace, 0);
  const got: number[] = [];
  const waiting = [0, 1, 2].map((at) => claimers[0]!.claim({ namespace }).then(() => got.push(at)));
  // All three stand in line, since none is in stock.
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (let count = 1; count <= 3; count++) {
    await world.stock(namespace, 1);
    await expect.poll(() => got.length).toBe(count);
  }
  await Promise.all(waiting);
  expect(got).toEqual([0, 1, 2]);
});

test("without stock a sandbox is made that is claimed from its birth; the same wish makes it once", async () => {
  const namespace = newNamespace();
  await world.stock(namespace, 0);
  const wish = { namespace, lock: randomUUID(), createOnNoStock: true, labels: { task: "7" }, environment: { A: "1" } };
  const made = await Promise.all(claimers.map((claimer) => claimer.claim(wish)));
  expect(new Set(made.map(nameOf)).size).toBe(1);
  expect(await world.sandboxes(namespace)).toHaveLength(1);
  expect(made[0]).toMatchObject({ kind: "cold" });
  const { metadata, spec } = made[0]!.sandbox;
  expect(metadata.labels).toMatchObject({ [labels.sandboxClaimed]: "true", task: "7" });
  expect(metadata.ownerReferences).toBeUndefined();
  expect(spec.template).toMatchObject({
    metadata: { labels: { task: "7" } },
    spec: { containers: [{ name: "main", image: "python" }] },
  });
});

test("an unknown set, a reserved label, a clone asked for in the wrong place: each is refused with what to do", async () => {
  const namespace = newNamespace();
  await world.stock(namespace, 0);
  const claim = claimers[0]!.claim;
  await expect(claim({ namespace, set: "other" })).rejects.toMatchObject({
    code: "NotFound",
    message: `The SandboxSet other does not exist in the namespace ${namespace}`,
  });
  await expect(claim({ namespace, labels: { "agents.kruise.io/lock": "x" } })).rejects.toMatchObject({
    code: "InvalidArgument",
  });
  await expect(claim({ namespace, annotations: { "ramet.dev/restore-from": "x" } })).rejects.toMatchObject({
    code: "InvalidArgument",
    hint: "Say it as restoreFrom: the checkpoint goes on in the place of what the sandbox runs",
  });
});

test("a sandbox that is locked, paused, going or nobody's is never taken", async () => {
  const namespace = newNamespace();
  const [locked, paused, going, stray] = await world.stock(namespace, 4);
  const { sandboxes } = claimers[0]!.parts;
  await sandboxes.mergePatch(locked!.metadata, { metadata: { annotations: { [annotations.lock]: "x" } } });
  await sandboxes.mergePatch(paused!.metadata, { spec: { paused: true } });
  await sandboxes.mergePatch(going!.metadata, { metadata: { finalizers: ["ramet.dev/test"] } });
  await sandboxes.delete(going!.metadata);
  await sandboxes.mergePatch(stray!.metadata, { metadata: { ownerReferences: [] } });
  // From a cache that has not heard of any of this, too: then the guard of the write says no.
  const claims = claimers.map((claimer) => claimer.claim({ namespace, timeoutMilliseconds: 1_000 }));
  const outcomes = await Promise.allSettled(claims);
  expect(outcomes.map((one) => (one.status === "rejected" ? codeOf(one.reason) : nameOf(one.value)))).toEqual([
    "Timeout",
    "Timeout",
    "Timeout",
  ]);
  await sandboxes.mergePatch(going!.metadata, { metadata: { finalizers: null } });
});
