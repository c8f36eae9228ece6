import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Deployment, type ResourceRequest } from "../engine/deployment.ts";
import type { ResourceProvider } from "../engine/resource-provider.ts";
import { StateFile } from "../engine/state-file.ts";

/** The order of the stand-in engine's operations, recorded by a provider that creates nothing. */
let directory: string;
let asked: string[];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-engine-"));
  asked = [];
});

afterEach(() => rm(directory, { recursive: true, force: true }));

it("creates a replacement before it deletes the old resource, and updates dependents in between", async () => {
  await run([thing("base", { at: "a" }), thing("user", { uses: "a" }, ["base"])]);
  await run([thing("base", { at: "b" }), thing("user", { uses: "b" }, ["base"])]);
  expect(asked).toEqual(["create base a", "create user", "create base b", "update user", "delete base a"]);
});

it("deletes before it replaces if the name must be free", async () => {
  await run([thing("base", { at: "a", keepsName: true })]);
  await run([thing("base", { at: "b", keepsName: true })]);
  expect(asked).toEqual(["create base a", "delete base a", "create base b"]);
});

it("deletes dependents first, regardless of the order of creation", async () => {
  await run([thing("early", {})]);
  await run([thing("late", {}), thing("early", { changed: 1 }, ["late"])]);
  await run([]);
  expect(asked.slice(-2)).toEqual(["delete early", "delete late"]);
});

it("deletes a replaced resource of an interrupted run in the next run", async () => {
  await run([thing("base", { at: "a" })]);
  await run([thing("base", { at: "b" })], { untilEnd: false });
  expect(asked).toEqual(["create base a", "create base b"]);
  const { steps } = await run([thing("base", { at: "b" })]);
  expect(steps.map(({ operation }) => operation)).toEqual(["same", "delete-replaced"]);
  expect(asked.at(-1)).toBe("delete base a");
  await run([]);
  expect(asked.at(-1)).toBe("delete base b");
});

it("recognizes a renamed resource by its alias", async () => {
  await run([thing("before", {})]);
  const { steps } = await run([
    { ...thing("after", {}), inputs: { name: "before" }, aliases: ["urn:pulumi:s::p::t::before"] },
  ]);
  expect(steps.map(({ operation, name }) => `${operation} ${name}`)).toEqual(["same after"]);
  expect((await run([thing("after", {})])).steps.map(({ operation }) => operation)).toEqual(["update"]);
});

/** Runs a program. With `untilEnd: false` it stops before anything is deleted, like a killed run. */
async function run(requests: ResourceRequest[], { untilEnd = true } = {}): Promise<Deployment> {
  const state = new StateFile(join(directory, "state.json"), "a passphrase");
  const parts = { providerOf: () => recording, analyze: () => Promise.resolve() };
  const deployment = new Deployment({ stack: "s", project: "p", state, preview: false, ...parts });
  for (const request of requests) await deployment.register(request);
  if (untilEnd) await deployment.deleteOthers();
  return deployment;
}

function thing(name: string, inputs: Record<string, unknown>, dependsOn: string[] = []): ResourceRequest {
  const dependencies = dependsOn.map((other) => `urn:pulumi:s::p::t::${other}`);
  const rest = { parent: "", custom: true, additionalSecrets: [], aliases: [], retainOnDelete: false };
  return { type: "t", name, inputs: { name, ...inputs }, dependencies, ...rest };
}

const recording: ResourceProvider = {
  check: (_olds, news) => Promise.resolve(news),
  diff: (_id, { inputs }, news) =>
    Promise.resolve({
      changes: JSON.stringify(inputs) !== JSON.stringify(news),
      replaces: inputs["at"] === news["at"] ? [] : ["at"],
      deleteBeforeReplace: news["keepsName"] === true,
    }),
  create: (inputs) => {
    asked.push(label("create", inputs));
    return Promise.resolve({ id: "id", outputs: inputs });
  },
  update: (_id, _old, news) => {
    asked.push(label("update", news));
    return Promise.resolve(news);
  },
  read: (_id, outputs) => Promise.resolve(outputs),
  delete: (_id, outputs) => {
    asked.push(label("delete", outputs));
    return Promise.resolve();
  },
};

function label(verb: string, inputs: Record<string, unknown>): string {
  const { name, at } = inputs as { name: string; at?: string };
  return [verb, name, at].filter((word) => word !== undefined).join(" ");
}
