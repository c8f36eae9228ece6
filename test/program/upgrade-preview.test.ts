import { afterAll, beforeAll, expect, it } from "vitest";
import { enginesConfigMap } from "../../src/api/engine/engine.ts";
import { systemNamespace } from "../../src/api/names/system-names.ts";
import { runProgram } from "../../src/cli/program.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources, type ResourceRef } from "../../src/kube/resource-ref.ts";
import type { UpgradeStep } from "../../src/preflight/plan-upgrade.ts";
import { startControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { memoryIo } from "../setup/memory-io.ts";
import { openProgram, type ProgramWorld } from "./program-world.ts";

/** A preview of another cell image. No controllers run: the test writes the status of the objects. */
let plane: TestControlPlane;
let world: ProgramWorld;
let client: KubeClient;

beforeAll(async () => {
  plane = await startControlPlane({ apis: "all" });
  world = await openProgram("test/program/programs/install", { kubeconfig: plane.kubeconfigPath });
  client = new KubeClient(plane.connection);
});
afterAll(async () => {
  await client.close();
  await world.remove();
  await plane.stop();
});

const engine = "1".repeat(12);
const digest = `sha256:${"d".repeat(64)}`;

async function write(ref: ResourceRef, name: string, spec: object, status: object): Promise<void> {
  const resource = client.resource(ref);
  const at = { namespace: "default", name };
  await resource.create({ apiVersion: `${ref.group}/${ref.version}`, kind: ref.kind, metadata: at, spec });
  await resource.mergePatch(at, { status }, { subresource: "status" });
}

it("lists the same effects as ramet upgrade --plan, and none for the image that runs", async () => {
  expect((await world.engine.up()).succeeded).toBe(true);
  const entry = { image: "registry.example/ramet-cell:1", name: "registry.example/ramet-cell:1" };
  await client.resource(coreResources.configMaps).create({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { namespace: systemNamespace, name: enginesConfigMap },
    data: { [engine]: JSON.stringify(entry) },
  });
  const { snapshots, checkpoints } = sandboxResources;
  for (const [name, from] of [
    ["data", { template: { name: "python" } }],
    ["bound", { checkpoint: { id: "c-1" } }],
  ] as const) {
    const version = { version: 1, digest, checkpointId: `${name}-id`, checkpointName: `${name}-1`, engine };
    const versions = [{ ...version, createdAt: "2030-01-01T00:00:00Z", parent: "template/python" }];
    await write(snapshots, name, { from, recipe: [] }, { version: 1, versions });
  }
  await write(checkpoints, "mine", { sandboxName: "a" }, { phase: "Succeeded", ramet: { engine } });

  expect((await world.engine.preview()).text).not.toContain("The cell image changes");
  await world.edit("ramet-cell:1", "ramet-cell:2");
  const preview = await world.engine.preview();
  expect(preview.succeeded).toBe(true);
  const [, ...listed] = preview.text.slice(preview.text.indexOf("The cell image changes")).split("\n");
  expect(listed.slice(0, 4).map((line) => line.trim())).toEqual([
    "NamedSnapshot default/bound: version 1 keeps its engine, because it cannot be captured again: its source is memory of the checkpoint c-1",
    "NamedSnapshot default/data: version 1 is captured again in the background, and stays current until then",
    "Checkpoint default/mine: keeps its engine: clones of it start in registry.example/ramet-cell:1",
    `Engine ${engine}: keep registry.example/ramet-cell:1: 1 checkpoints and 0 sandboxes have it`,
  ]);

  const io = memoryIo();
  const args = ["upgrade", "--plan", "--cell-image", "registry.example/ramet-cell:2", "-o", "json"];
  expect(await runProgram(io, [...args, "--kubeconfig", plane.kubeconfigPath])).toBe(0);
  const { items } = JSON.parse(io.written("stdout")) as { items: UpgradeStep[] };
  const texts = items.map(({ kind, namespace, name, what }) => {
    return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}: ${what}`;
  });
  expect(listed.slice(0, 4).map((line) => line.trim())).toEqual(texts);
});
