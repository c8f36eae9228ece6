import { afterAll, beforeAll, expect, it } from "vitest";
import { refOf } from "../../src/kube/resource-ref.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import type { Values } from "../engine/values.ts";
import { providerTexts } from "./provider-texts.ts";
import { openProgram } from "./program-world.ts";
import { ProviderWorld } from "./provider-world.ts";

/** An API server without controllers, so that nothing that a program waits for ever happens. */
let plane: TestControlPlane;
let client: KubeClient;

beforeAll(async () => {
  plane = await openControlPlane();
  client = new KubeClient(plane.connection);
});

afterAll(async () => {
  await client.close();
  await plane.stop();
});

const owner = (name: string): string => `organization/program/test/${name}`;
const snapshot = (name: string): Values => {
  const source = { checkpoint: { id: "some-checkpoint" } };
  return { name, namespace: "default", owner: owner(name), from: source, source, recipe: [], timeout: "10 minutes" };
};
const clone = (name: string): Values => ({
  name,
  namespace: "default",
  owner: owner(name),
  from: "some-checkpoint",
  timeout: "10 minutes",
});

it("ends the waits for a build, a clone and a deletion when Pulumi calls Cancel of its own process", async () => {
  const world = await ProviderWorld.open({ kubeconfig: plane.kubeconfigPath });
  try {
    const kept = await holdBack("kept");
    const waits = [
      expect(world.up("namedSnapshot", snapshot("data"))).rejects.toMatchObject({
        message: /^Waiting for the snapshot data was canceled\. .*run pulumi up again.* \[Canceled\]$/,
        id: "default/data",
      }),
      expect(world.up("sandboxClone", clone("dev"))).rejects.toThrow(/^Waiting for the sandbox dev was canceled\./),
      expect(world.delete(kept)).rejects.toThrow(/^Waiting for the deletion of the snapshot kept was canceled\./),
    ];
    const snapshots = client.resource(refOf(namedSnapshotKind));
    await expect.poll(() => world.lines.join()).toMatch(/data: .*dev: |dev: .*data: /);
    const at = { namespace: "default", name: "kept" };
    await expect.poll(async () => (await snapshots.get(at)).metadata.deletionTimestamp).toBeDefined();
    const started = performance.now();
    await world.cancel();
    await Promise.all(waits);
    expect(performance.now() - started).toBeLessThan(10_000);
  } finally {
    await world.close();
  }
});

it("keeps a canceled resource in the state, and the next run waits for it again", async () => {
  const program = await openProgram("test/program/programs/dynamic", { kubeconfig: plane.kubeconfigPath });
  try {
    for (const operation of ["create", "update"]) {
      const interrupted = new AbortController();
      let canceledAt = Infinity;
      const onLine = (line: string): void => {
        if (!line.includes("waiting for the controller")) return;
        canceledAt = performance.now();
        interrupted.abort();
      };
      const run = await program.engine.with({ onLine, signal: interrupted.signal }).up();
      expect(performance.now() - canceledAt).toBeLessThan(10_000);
      expect(run.succeeded).toBe(false);
      expect(run.steps.find(({ name }) => name === "data")).toMatchObject({ operation });
      expect(await program.state()).toMatch(/Waiting for the snapshot data was canceled/);
    }
  } finally {
    await program.remove();
  }
});

/** A named snapshot whose deletion never ends. */
async function holdBack(name: string): Promise<{ id: string; inputs: Values; outputs: Values }> {
  const { apiVersion } = namedSnapshotKind;
  const inputs = snapshot(name);
  const annotations = { "ramet.dev/pulumi-resource": owner(name) };
  const metadata = { name, namespace: "default", annotations, finalizers: ["example.com/hold"] };
  const spec = { from: inputs["from"] };
  await client.resource(refOf(namedSnapshotKind)).create({ apiVersion, kind: "NamedSnapshot", metadata, spec });
  const known = { ...inputs, __provider: providerTexts.namedSnapshot };
  return { id: `default/${name}`, inputs: known, outputs: known };
}
