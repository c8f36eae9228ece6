import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import * as z from "zod";
import { kinds } from "../../src/api/kinds/crd.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { coreResources, refOf } from "../../src/kube/resource-ref.ts";
import { TestCluster } from "../cluster/local-cluster.ts";
import type { RunResult } from "../engine/engine.ts";
import { PulumiEngine } from "../engine/pulumi-engine.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";
import { providerTexts } from "./provider-texts.ts";

const token = "correct-horse-battery-staple";
const secretKeys = ["program:token"];
const snapshots = refOf(namedSnapshotKind);

let cluster: TestCluster;
let world: ProgramWorld;

beforeAll(async () => {
  cluster = await TestCluster.create();
  await cluster.up();
  const { kubeconfig } = cluster.directory;
  const configuration = { "program:token": token };
  world = await openProgram("test/program/programs/notes", { kubeconfig, configuration, secretKeys });
});

afterAll(async () => {
  await world.remove();
  await cluster.remove();
});

it("keeps a secret out of the state, the snapshot and all output", async () => {
  const up = await world.engine.up();
  expect(up).toMatchObject({ succeeded: true, outputs: { version: 1 } });
  const again = await world.engine.preview();
  expect(again).toMatchObject({ text: "", outputs: { digest: up.outputs["digest"] } });
  const shown = [up.text, again.text, await world.state(), await everyObject(), await everyLog()].join("\n");
  // Make sure that the object, the output of its steps and the controller's log were searched.
  const found = [/notes-log-/, /the controllers are running/, /started a Pod/].map((pattern) => pattern.test(shown));
  expect(found).toEqual([true, true, true]);
  expect([token, Buffer.from(token).toString("base64")].filter((text) => shown.includes(text))).toEqual([]);
  const client = await cluster.client();
  const secret = await client.resource(coreResources.secrets).get({ namespace: "default", name: "notes-recipe" });
  expect(JSON.stringify(secret)).toContain(Buffer.from(token).toString("base64"));
});

it("serializes the provider as the pinned text", async () => {
  const { resources } = stateIn(JSON.parse(await world.state()));
  const texts = new Set(resources.flatMap(({ inputs }) => inputs.__provider ?? []));
  expect([...texts].sort()).toEqual([providerTexts.namedSnapshot, providerTexts.readiness].sort());
  expect(providerTexts.namedSnapshot.length).toBeLessThan(1000);
});

it("previews that another secret rebuilds the snapshot and its child", async () => {
  const configuration = { "program:token": "another one" };
  const preview = await world.engine.with({ configuration }).preview();
  expect(preview.text).toMatch(/notes: secrets changes; digest .*; rebuilds from step 1 of 3/);
  expect(preview.text).toMatch(
    /child: the snapshot that it is built from changes from .*; digest .*; rebuilds from step 1 of 1/,
  );
  expect(preview.text).not.toMatch(/another one/);
});

it("previews that a set with a changed template rolls, and waits for it", async () => {
  const engine = world.engine.with({ configuration: { "program:token": token, "program:who": "me" } });
  const sets = (await cluster.client()).of(sandboxSetKind);
  const before = await sets.get({ namespace: "default", name: "pool" });
  expect(updated(await engine.preview())).toEqual(["other", "pool", "pool-ready"]);
  expect(updated(await engine.up())).toEqual(["other", "pool", "pool-ready"]);
  const { status } = await sets.get({ namespace: "default", name: "pool" });
  expect(status).toMatchObject({ updatedReplicas: 1, updatedAvailableReplicas: 1 });
  expect(status?.updateRevision).not.toBe(before.status?.updateRevision);
  await world.engine.up();
});

it("rejects a secret that everyone could read", async () => {
  const configuration = { "program:token": token, "program:leak": "true" };
  const preview = await world.engine.with({ configuration }).preview();
  expect(preview.succeeded).toBe(false);
  expect(preview.text).toMatch(/error: notes: recipe: contains a secret/);
  expect(preview.text).not.toContain(token);
});

it("reports the failed step and keeps the old version", async () => {
  const configuration = { "program:token": token, "program:command": "echo broken; exit 3" };
  const failed = await world.engine.with({ configuration }).up();
  expect(failed.succeeded).toBe(false);
  expect(failed.text).toMatch(/error: notes: .*version 1 stays current\): .*[Ss]tep 3.*3/s);
  expect(failed.text).toMatch(/broken/);
  const repaired = await world.engine.up();
  expect(repaired).toMatchObject({ succeeded: true, outputs: { version: 1 } });
});

it("continues where a killed run stopped", async () => {
  const configuration = { "program:token": token, "program:command": "sleep 2; echo slept" };
  const killed = await world.engine
    .with({
      configuration,
      onLine: (line, killProvider) => {
        if (line.includes("Step 3 of 3")) killProvider();
      },
    })
    .up();
  expect(killed.succeeded).toBe(false);
  const next = await world.engine.with({ configuration }).up();
  expect(next).toMatchObject({ succeeded: true, outputs: { version: 2 } });
  expect(next.text).not.toMatch(/Starting the sandbox notes/);
  expect((await world.engine.up()).succeeded).toBe(true);
});

it("creates a renamed snapshot before it deletes the old one, and updates its child", async () => {
  const configuration = { "program:token": token, "program:name": "renamed" };
  const renamed = await world.engine.with({ configuration }).up();
  expect(renamed.succeeded).toBe(true);
  expect(
    renamed.steps.filter(({ operation }) => operation !== "same").map(({ operation, name }) => [operation, name]),
  ).toEqual([
    ["replace", "notes"],
    ["update", "child"],
    ["delete-replaced", "notes"],
  ]);
  expect((await names()).toSorted()).toEqual(["child", "renamed"]);
  expect((await world.engine.up()).succeeded).toBe(true);
  expect((await names()).toSorted()).toEqual(["child", "notes"]);
});

it("names the declaring stack to another stack", async () => {
  const other = await world.engine.with({ stack: "other" }).up();
  expect(other.succeeded).toBe(false);
  // Pulumi's plugin rejects the existing template first, without naming its owner.
  expect(other.text).toMatch(
    world.engine instanceof PulumiEngine
      ? /"base" already exists/
      : /NamedSnapshot default\/notes is declared by organization\/program\/test\/notes/,
  );
});

it("detects objects that were deleted or changed outside the program", async () => {
  const client = await cluster.client();
  await client.resource(snapshots).delete({ namespace: "default", name: "child" });
  await client.resource(snapshots).mergePatch({ namespace: "default", name: "notes" }, { spec: { keepVersions: 2 } });
  await cluster.until(
    snapshots,
    { namespace: "default", name: "child" },
    (value) => Anything.parse(value),
    (found) => found === undefined,
  );
  await world.engine.refresh();
  const preview = await world.engine.preview();
  expect(
    preview.steps.filter(({ operation }) => operation !== "same").map(({ name, operation }) => [name, operation]),
  ).toEqual([
    ["notes", "update"],
    ["child", "create"],
  ]);
  expect(preview.text).toMatch(/notes: keepVersions changes/);
  expect((await world.engine.up()).succeeded).toBe(true);
});

it("is destroyed with its Secret", async () => {
  expect((await world.engine.destroy()).succeeded).toBe(true);
  expect(await names()).toEqual([]);
  const client = await cluster.client();
  expect(
    await client.resource(coreResources.secrets).find({ namespace: "default", name: "notes-recipe" }),
  ).toBeUndefined();
});

/** The updated resources. A component has the name of its object, and only some engines report both. */
function updated({ steps }: RunResult): string[] {
  const found = steps.filter(({ operation }) => operation === "update").map(({ name }) => name);
  return [...new Set(found)].toSorted();
}

async function names(): Promise<string[]> {
  const { items } = await (await cluster.client()).resource(snapshots).list({ namespace: "default" });
  return items.map(({ metadata }) => metadata.name);
}

/** All objects of Ramet's kinds, Pods, ConfigMaps and Events. */
async function everyObject(): Promise<string> {
  const client = await cluster.client();
  const { pods, configMaps, events } = coreResources;
  const lists = [...kinds.map(refOf), pods, configMaps, events].map((ref) => client.resource(ref).list());
  return JSON.stringify(await Promise.all(lists));
}

/** The logs of the cluster's processes and of the cells. */
async function everyLog(): Promise<string> {
  const { path } = cluster.directory;
  // Cells may end meanwhile, which removes their directories.
  const names = await vi.waitFor(() => readdir(path, { recursive: true }), { timeout: 20_000 });
  const logs = names.filter((name) => name.endsWith(".log"));
  return (await Promise.all(logs.map((name) => readFile(join(path, name), "utf8").catch(() => "")))).join("\n");
}

const Anything = z.looseObject({
  metadata: z.looseObject({ name: z.string(), uid: z.string(), resourceVersion: z.string() }),
});
/** Pulumi wraps the state. */
function stateIn(file: unknown): z.infer<typeof State> {
  const Envelope = z
    .object({ checkpoint: z.object({ latest: State }) })
    .transform(({ checkpoint }) => checkpoint.latest);
  return z.union([State, Envelope]).parse(file);
}

const State = z.object({
  resources: z.array(z.object({ inputs: z.looseObject({ __provider: z.string().optional() }).default({}) })),
});
