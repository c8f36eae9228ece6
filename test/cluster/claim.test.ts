import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { annotations, labels } from "../../src/api/names/labels.ts";
import type { RametError } from "../../src/base/errors.ts";
import type { RequestRecord } from "../../src/kube/kube-client.ts";
import { openClaimWorld, type ClaimWorld } from "./claim-world.ts";
import type { Claimer } from "./claimer.ts";

/** Tests which claimer gets which sandbox, on a real API server with stand-in sandboxes, in which nothing runs. */
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

it("claims a sandbox in one write that sets lock, owner, time and labels, and removes only the set's owner reference", async () => {
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

it("gives each ready sandbox to exactly one of any number of claimers in several processes", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 12 }),
      fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 24 }),
      async (stocked, requests) => {
        const namespace = newNamespace();
        await world.stock(namespace, stocked);
        await Promise.all(claimers.map((claimer) => claimer.stocked(namespace, stocked)));
        const stop = new AbortController();
        const names: string[] = [];
        const errorCodes: string[] = [];
        const outcomes = requests.map((process) =>
          claimers[process]!.claim({ namespace, timeoutMilliseconds: 60_000 }, stop.signal).then(
            (claimed) => names.push(nameOf(claimed)),
            (error: unknown) => errorCodes.push(codeOf(error)),
          ),
        );
        await expect.poll(() => names.length, { interval: 5 }).toBe(Math.min(stocked, requests.length));
        // Another sandbox reaches a waiting claimer only after all events before it, so by then nothing was claimed twice.
        const more = requests.length > stocked ? 1 : 0;
        const claimed = Math.min(stocked, requests.length) + more;
        await world.stock(namespace, more);
        await expect.poll(() => names.length, { interval: 5 }).toBe(claimed);
        stop.abort();
        await Promise.all(outcomes);
        expect(new Set(names).size).toBe(names.length);
        expect(names).toHaveLength(claimed);
        expect(errorCodes.every((code) => code === "Canceled")).toBe(true);
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

it("returns the first sandbox when a request is repeated, in the same process and in another one", async () => {
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

it("serves waiting claimers in the order of their requests", async () => {
  const namespace = newNamespace();
  await world.stock(namespace, 0);
  const served: number[] = [];
  const requests: RequestRecord[] = [];
  const claimer = await world.claimer({ onRequest: (request) => requests.push(request) });
  const waiting = [0, 1, 2].map((at) => claimer.claim({ namespace }).then(() => served.push(at)));
  // A claimer that finds no sandbox joins the line, and then reads the set.
  await expect.poll(() => requests.filter(({ resource }) => resource.kind === "SandboxSet").length).toBe(3);
  for (let count = 1; count <= 3; count++) {
    await world.stock(namespace, 1);
    await expect.poll(() => served.length).toBe(count);
  }
  await Promise.all(waiting);
  expect(served).toEqual([0, 1, 2]);
});

it("creates a claimed sandbox if none is ready, and only one for a repeated request", async () => {
  const namespace = newNamespace();
  await world.stock(namespace, 0);
  const request = {
    namespace,
    lock: randomUUID(),
    createOnNoStock: true,
    labels: { task: "7" },
    environment: { A: "1" },
  };
  const made = await Promise.all(claimers.map((claimer) => claimer.claim(request)));
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

it("rejects an unknown set, a reserved label and a misplaced restore-from annotation, each with a hint", async () => {
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
    hint: "Use restoreFrom, which restores the checkpoint in place",
  });
});

it("never claims a sandbox that is locked, paused, being deleted or without an owner", async () => {
  const namespace = newNamespace();
  const [locked, paused, deleted, orphan] = await world.stock(namespace, 4);
  const { sandboxes } = claimers[0]!.parts;
  await sandboxes.mergePatch(locked!.metadata, { metadata: { annotations: { [annotations.lock]: "x" } } });
  await sandboxes.mergePatch(paused!.metadata, { spec: { paused: true } });
  await sandboxes.mergePatch(deleted!.metadata, { metadata: { finalizers: ["ramet.dev/test"] } });
  await sandboxes.delete(deleted!.metadata);
  await sandboxes.mergePatch(orphan!.metadata, { metadata: { ownerReferences: [] } });
  // If a claimer's cache does not show these changes yet, the precondition of its write fails.
  const claims = claimers.map((claimer) => claimer.claim({ namespace, timeoutMilliseconds: 1_000 }));
  const outcomes = await Promise.allSettled(claims);
  expect(outcomes.map((one) => (one.status === "rejected" ? codeOf(one.reason) : nameOf(one.value)))).toEqual([
    "Timeout",
    "Timeout",
    "Timeout",
  ]);
  await sandboxes.mergePatch(deleted!.metadata, { metadata: { finalizers: null } });
});
