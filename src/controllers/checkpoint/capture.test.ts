import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { RametError } from "../../base/errors.ts";
import { deleteWith } from "./capture.ts";

const owner = { apiVersion: "example.com/v1", kind: "Backup", name: "b", uid: "uid-b" };
const checkpoint = (resourceVersion: string, ownerReferences: object[]): Checkpoint =>
  Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: {
      name: "c",
      namespace: "t",
      uid: "uid-c",
      resourceVersion,
      creationTimestamp: "2030-01-01T00:00:00Z",
      annotations: { "ramet.dev/volume-snapshot": JSON.stringify({ name: "mine" }) },
      ownerReferences,
    },
    spec: { sandboxName: "a" },
  });
const captured = (snapshot: string) =>
  ({ parts: [{ volume: { snapshot } }] }) as unknown as Pick<CheckpointRecord, "parts">;

/** Somebody adds an owner before the first write. @returns the patches that were written */
async function patchesFor(snapshot: string): Promise<object[]> {
  const patches: object[] = [];
  let finds = 0;
  const resource = {
    find: () => Promise.resolve(finds++ === 0 ? checkpoint("1", []) : checkpoint("2", [owner])),
    mergePatch: (_: object, patch: { metadata: { resourceVersion: string } }) => {
      if (patch.metadata.resourceVersion !== "2") return Promise.reject(new RametError("Conflict", "changed"));
      patches.push(patch);
      return Promise.resolve();
    },
  };
  const snapshots = { get: () => Promise.resolve({ metadata: { uid: "uid-s" } }) };
  const standIns = { client: { resource: () => snapshots }, informers: { checkpoints: { resource } } };
  const dependencies = standIns as unknown as Parameters<typeof deleteWith>[2];
  await deleteWith(captured(snapshot), checkpoint("1", []), dependencies);
  return patches;
}

it("adds the requested VolumeSnapshot to the owners of a Checkpoint, and keeps the others", async () => {
  expect(await patchesFor("mine")).toMatchObject([
    { metadata: { uid: "uid-c", ownerReferences: [owner, { kind: "VolumeSnapshot", name: "mine", uid: "uid-s" }] } },
  ]);
});

it("adds no owner if the VolumeSnapshot has another name", async () => {
  expect(await patchesFor("ramet-c-0123456789")).toEqual([]);
});
