import { afterAll, beforeAll, expect, it } from "vitest";
import { type NamedSnapshot, namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { type SandboxSet, sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { setRevision } from "../../src/api/set/set-revision.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../src/kube/resource-client.ts";
import { openControlPlane, type TestControlPlane } from "../setup/control-plane.ts";
import { providerTexts } from "./provider-texts.ts";
import { ProviderWorld, type Kept } from "./provider-world.ts";

/** An API server without controllers: the test writes their status. */
const at = { namespace: "default", name: "data" };
const pool = { namespace: "default", name: "pool" };
const checkpointId = "some-checkpoint";

let plane: TestControlPlane;
let client: KubeClient;
let world: ProviderWorld;
let snapshots: ResourceClient<NamedSnapshot>;
let sets: ResourceClient<SandboxSet>;

beforeAll(async () => {
  plane = await openControlPlane();
  client = new KubeClient(plane.connection);
  world = await ProviderWorld.open({ kubeconfig: plane.kubeconfigPath });
  snapshots = client.of(namedSnapshotKind);
  sets = client.of(sandboxSetKind);
});

afterAll(async () => {
  await world.close();
  await client.close();
  await plane.stop();
});

it("ends only after the sets that follow a snapshot have observed its version", async () => {
  const { apiVersion, kind } = sandboxSetKind;
  const template = { metadata: { annotations: { "ramet.dev/restore-from": at.name } } };
  const set = await sets.create({ apiVersion, kind, metadata: pool, spec: { replicas: 1, template } });
  await sets.mergePatch(pool, { status: { replicas: 1, availableReplicas: 1, updateRevision: "before" } }, status);
  let hasEnded = false;
  const up = world.up("namedSnapshot", requestFor()).finally(() => {
    hasEnded = true;
  });
  await expect.poll(() => snapshots.find(at)).toBeDefined();
  await built();
  await expect.poll(() => world.lines).toContain("data: version 1 is current");
  // Without a wait, the update would end before this call.
  const outputs = { ...requestFor(), __provider: providerTexts.namedSnapshot };
  await world.refresh({ id: "default/data", inputs: requestFor(), outputs });
  expect(hasEnded).toBe(false);
  const updateRevision = setRevision(set, undefined, () => checkpointId).hash;
  await sets.mergePatch(pool, { status: { updateRevision } }, status);
  expect((await up).outputs).toMatchObject({ version: 1, checkpointId });
  expect(world.lines).toContain("data: Warning: SandboxTemplate t: spec.runtimes[0].name csi has no effect");
});

const status = { subresource: "status" };

function requestFor(): Kept["inputs"] {
  const source = { checkpoint: { id: checkpointId } };
  return { ...at, owner: "organization/program/test/data", from: source, source, recipe: [], timeout: "2 minutes" };
}

/** Writes the status of a finished build. */
async function built(): Promise<void> {
  const { metadata } = await snapshots.get(at);
  const digest = metadata.annotations?.["ramet.dev/wanted-digest"];
  const lastTransitionTime = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const building = { type: "Building", status: "False", reason: "Built", message: "", lastTransitionTime };
  const message = "SandboxTemplate t: spec.runtimes[0].name csi has no effect";
  const ignored = { type: "FieldsIgnored", status: "True", reason: "NotSupported", message, lastTransitionTime };
  const conditions = [building, ignored];
  const now = { observedGeneration: metadata.generation, version: 1, digest, checkpointId, conditions };
  await snapshots.mergePatch(at, { status: now }, status);
}
