import { afterAll, beforeAll, expect, it } from "vitest";
import { followed } from "../../provider/handlers/follow.ts";
import { awaitSandbox } from "../../src/operations/await-sandbox.ts";
import { objectOf } from "../../src/operations/objects.ts";
import { type Cluster, openCluster } from "../cluster/controllers-cluster.ts";
import { startUnpullingNode, words } from "../cluster/unpulling-node.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

/** The controllers wait three seconds instead of three minutes for an image. */
let cluster: Cluster;
let world: ProgramWorld;

beforeAll(async () => {
  cluster = await openCluster({ startNode: startUnpullingNode, pullTimeoutMilliseconds: 3_000 });
  world = await openProgram("test/program/programs/unpulled", { kubeconfig: cluster.kubeconfigPath });
});

afterAll(async () => {
  await world.remove();
  await cluster.close();
});

it("fails pulumi up of a set whose image cannot be pulled, with the registry's words, and again in the next run", async () => {
  for (const operation of ["create", "update"]) {
    const up = await world.engine.up();
    expect(up.succeeded).toBe(false);
    expect(up.text).toContain(words);
    expect(up.text).toMatch(
      /The sandboxes of the set pool do not start: .*then run pulumi up again \[SandboxNotReady\]/s,
    );
    expect(up.steps.find(({ name }) => name === "pool-ready")).toMatchObject({ operation });
  }
  expect((await world.engine.preview()).text).not.toMatch(/pool {2}/);
  expect((await world.engine.destroy()).succeeded).toBe(true);
});

it("leaves the wait to Pulumi's Kubernetes provider if the program passes one", async () => {
  const preview = await world.engine.with({ configuration: { "program:ownProvider": "true" } }).preview();
  expect(preview.succeeded).toBe(true);
  const set = preview.steps.find(({ type }) => type === "kubernetes:agents.kruise.io/v1alpha1:SandboxSet");
  expect(JSON.stringify(set?.inputs)).toContain("pulumi.com/waitFor");
  expect(preview.steps.some(({ name }) => name === "pool-ready")).toBe(false);
});

it("gives up on a sandbox that the controllers still try to start", async () => {
  const spec = { template: { spec: { containers: [{ name: "main", image: "nosuch:9", command: ["sleep", "1"] }] } } };
  const metadata = { name: "own", namespace: "default" };
  await cluster.create({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec });
  const sandboxes = cluster.seen.sandboxes.resource;
  const lines: string[] = [];
  const objects = { sandboxes: followed(sandboxes, (line) => lines.push(line)) };
  const wait = awaitSandbox(objects, await sandboxes.get(metadata), {
    timeoutMilliseconds: 60_000,
    refusedMilliseconds: 2_000,
    signal: new AbortController().signal,
  }).then(objectOf);
  await expect(wait).rejects.toThrow(/^The sandbox own did not start: .*manifest unknown/);
  expect(lines.join()).toContain(words);
});
