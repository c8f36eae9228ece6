import { hash } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { Checkpoint } from "../kinds/checkpoint.ts";
import { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { Storage } from "./storage.ts";

const digestOf = (name: string) => `sha256:${hash("sha256", name)}`;

interface Given {
  namespace?: string;
  phase?: string;
  /** Undefined: not known yet. */
  size?: number | undefined;
  /** The sizes of the layers by their ids. */
  layers?: Record<string, number>;
  labels?: Record<string, string>;
  /** The Checkpoint whose data it has. */
  sharesWith?: string;
  /** A part of the owner, or its name. */
  owner?: string | Record<string, unknown>;
  isDeleted?: boolean;
  /** Written by an earlier release: its status has no parts. */
  isEarlier?: boolean;
}

/** A Checkpoint that was written as its name, with its name as the id of its data. */
function checkpoint(name: string, given: Given = {}): Checkpoint {
  const { namespace = "t", phase = "Succeeded", size, layers = {}, labels = {}, owner } = given;
  const refs = Object.entries(layers).map(([checkpointId, sizeBytes]) => ({
    checkpointId,
    sizeBytes,
    manifestDigest: digestOf(checkpointId),
  }));
  const part = {
    backend: "cell",
    handle: digestOf(given.sharesWith ?? name),
    contents: ["filesystem"],
    consistency: "atomic",
    layers: refs,
  };
  const parts = [{ ...part, cutAt: "2030-01-01T00:00:00Z", sizeBytes: size ?? 0 }];
  return Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: {
      name,
      namespace,
      uid: `${namespace}-${name}`,
      resourceVersion: "1",
      creationTimestamp: "",
      labels,
      ...(owner !== undefined && {
        ownerReferences: [
          {
            apiVersion: "agents.kruise.io/v1alpha1",
            kind: "Sandbox",
            name: "a",
            uid: "u",
            controller: true,
            ...(typeof owner === "string" ? { name: owner } : owner),
          },
        ],
      }),
      ...(given.isDeleted === true && { deletionTimestamp: "2030-01-01T00:00:00Z" }),
    },
    spec: { sandboxName: "a" },
    status: {
      phase,
      checkpointId: name,
      ...(size !== undefined && { ramet: { sizeBytes: size, ...(given.isEarlier !== true && { parts }) } }),
    },
  });
}

const step = { "ramet.dev/purpose": "step" };
const ofSnapshot = (name: string, purpose: string) => ({
  "ramet.dev/purpose": purpose,
  "ramet.dev/snapshot": name,
  "ramet.dev/snapshot-uid": `uid-${name}`,
});
/** A cached step that is a layer on others. */
const layer = (name: string, size: number, below: Record<string, number> = {}) =>
  checkpoint(name, { size, layers: { ...below, [name]: size }, labels: step });
const uids = (...some: Checkpoint[]) => new Set(some.map(({ metadata }) => metadata.uid));

it("counts a layer that only one version uses as data of that version alone", () => {
  const [files, version] = [layer("files", 100), checkpoint("v1", { size: 7, layers: { files: 100 } })];
  const storage = new Storage([files, version]);
  expect(storage.usedBytes).toBe(107);
  expect(storage.bytesOf([version])).toEqual({ uniqueBytes: 107, sharedBytes: 0 });
  expect(storage.bytesOf([files])).toEqual({ uniqueBytes: 0, sharedBytes: 100 });
  // The cached step keeps the layer after the deletion of the version.
  expect(storage.freedBy(uids(version))).toBe(7);
  expect(storage.freedBy(uids(files))).toBe(0);
  expect(storage.freedBy(uids(files, version))).toBe(107);
  expect(storage.freedBy(uids(files, version), new Set(["t/files"]))).toBe(7);
});

it("counts a layer of two versions once, and as shared in both", () => {
  const layers = { files: 100 };
  const [first, second] = [
    checkpoint("v1", { size: 7, layers }),
    checkpoint("v2", { size: 9, layers: { ...layers, more: 20 } }),
  ];
  const storage = new Storage([layer("files", 100), layer("more", 20, layers), first, second]);
  expect(storage.usedBytes).toBe(136);
  expect(storage.bytesOf([first])).toEqual({ uniqueBytes: 7, sharedBytes: 100 });
  expect(storage.bytesOf([second])).toEqual({ uniqueBytes: 29, sharedBytes: 100 });
  expect(storage.bytesOf([first, second])).toEqual({ uniqueBytes: 136, sharedBytes: 0 });
});

it("counts a layer whose own Checkpoint was deleted as long as others need it", () => {
  const version = checkpoint("v1", { size: 7, layers: { gone: 100 } });
  const storage = new Storage([version]);
  expect(storage.usedBytes).toBe(107);
  expect(storage.bytesOf([version])).toEqual({ uniqueBytes: 107, sharedBytes: 0 });
  expect(storage.freedBy(uids(version))).toBe(107);
});

it("counts the data of one paused sandbox once, however many Checkpoints share it", () => {
  const [pause, copy] = [checkpoint("pause", { size: 50 }), checkpoint("copy", { size: 50, sharesWith: "pause" })];
  const storage = new Storage([pause, copy]);
  expect(storage.usedBytes).toBe(50);
  expect(storage.bytesOf([copy])).toEqual({ uniqueBytes: 0, sharedBytes: 50 });
  expect(storage.freedBy(uids(copy))).toBe(0);
  expect(storage.freedBy(uids(copy, pause))).toBe(50);
});

it("counts all data, whatever labels and annotations its users set", () => {
  const labels = { "ramet.dev/data-of": "x", "ramet.dev/checkpoint-id": "x" };
  const all = ["a", "b", "c"].map((name) => checkpoint(name, { size: 5, labels }));
  const earlier = ["d", "e"].map((name) => checkpoint(name, { size: 3, labels, isEarlier: true }));
  const storage = new Storage([...all, ...earlier]);
  expect(storage.usedBytes).toBe(21);
  for (const one of all) expect(storage.bytesOf([one])).toEqual({ uniqueBytes: 5, sharedBytes: 0 });
  expect(storage.freedBy(uids(...all))).toBe(15);
});

it("does not count failed checkpoints, nor those without a size yet", () => {
  const failed = checkpoint("failed", { phase: "Failed", size: 5, layers: { gone: 100 } });
  const underWay = checkpoint("under-way", { phase: "Creating" });
  const storage = new Storage([failed, underWay]);
  expect(storage.usedBytes).toBe(0);
  for (const one of [failed, underWay]) expect(storage.bytesOf([one])).toEqual({ uniqueBytes: 0, sharedBytes: 0 });
  expect(new Storage([failed, underWay], ({ status }) => status?.ramet?.sizeBytes ?? 3).usedBytes).toBe(3);
});

it("counts the objects of an earlier release by their size", () => {
  const earlier = checkpoint("earlier", { size: 5, isEarlier: true });
  const storage = new Storage([earlier]);
  expect(storage.usedBytes).toBe(5);
  expect(storage.bytesOf([earlier])).toEqual({ uniqueBytes: 5, sharedBytes: 0 });
});

it("counts what is being deleted until it is gone, but does not share with it", () => {
  const layers = { files: 100 };
  const [going, kept] = [
    checkpoint("going", { size: 7, layers, isDeleted: true }),
    checkpoint("kept", { size: 9, layers }),
  ];
  const storage = new Storage([going, kept]);
  expect(storage.usedBytes).toBe(116);
  expect(storage.bytesOf([kept])).toEqual({ uniqueBytes: 109, sharedBytes: 0 });
  expect(storage.bytesOf([going])).toEqual({ uniqueBytes: 7, sharedBytes: 100 });
  expect(storage.freedBy(uids(kept))).toBe(109);
  // A list that was read before the deletion can name a Checkpoint that a later one does not have.
  expect(new Storage([kept]).bytesOf([going])).toEqual({ uniqueBytes: 0, sharedBytes: 100 });
});

it("keeps equal ids of two namespaces apart", () => {
  const storage = new Storage([checkpoint("a", { size: 1 }), checkpoint("a", { size: 2, namespace: "u" })]);
  expect(storage.usedBytes).toBe(3);
});

it("names what a user deletes, the largest first", () => {
  const layers = { files: 100 };
  const version = checkpoint("v1", { size: 7, layers, labels: ofSnapshot("python", "version") });
  const cached = checkpoint("files", { size: 100, layers, labels: ofSnapshot("python", "step") });
  const orphan = checkpoint("old", { size: 60, labels: ofSnapshot("gone", "version") });
  const pause = checkpoint("a-pause", { size: 80, owner: "a", labels: { "ramet.dev/purpose": "pause" } });
  const failed = checkpoint("failed", { phase: "Failed", size: 500 });
  const python = NamedSnapshot.parse({
    apiVersion: "ramet.dev/v1alpha1",
    kind: "NamedSnapshot",
    metadata: { name: "python", namespace: "t", uid: "uid-python", resourceVersion: "1", creationTimestamp: "" },
    spec: { from: { template: { name: "base" } }, recipe: [{ run: "true" }] },
  });
  expect(new Storage([orphan, version, failed, pause, cached]).holders([python])).toEqual([
    { kind: "snapshot", namespace: "t", name: "python", uniqueBytes: 107, sharedBytes: 0, retained: ["v1"] },
    { kind: "sandbox", namespace: "t", name: "a", uniqueBytes: 80, sharedBytes: 0 },
    { kind: "checkpoint", namespace: "t", name: "old", uniqueBytes: 60, sharedBytes: 0 },
  ]);
});

it("takes only the Sandbox that controls the Checkpoint of a pause for its holder", () => {
  const pause = { "ramet.dev/purpose": "pause" };
  const holder = (given: Given) => new Storage([checkpoint("c", { size: 1, ...given })]).holders([])[0];
  expect(holder({ labels: pause, owner: "b" })).toMatchObject({ kind: "sandbox", name: "b" });
  for (const given of [
    { owner: "x; reboot" },
    { labels: pause, owner: { apiVersion: "example.com/v1", name: "x; reboot" } },
    { labels: pause, owner: { controller: undefined, name: "x; reboot" } },
    { labels: pause, owner: { kind: "SandboxSet", name: "x; reboot" } },
  ])
    expect(holder(given)).toMatchObject({ kind: "checkpoint", name: "c" });
});

it("never counts data twice, whatever shares it", () => {
  const sizes = [1, 2, 4, 8];
  const some = fc.array(
    fc.record({ size: fc.nat(64), layers: fc.subarray(sizes), isStep: fc.boolean(), isDeleted: fc.boolean() }),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(some, (given) => {
      const all = given.map(({ size, layers, isStep, isDeleted }, at) =>
        checkpoint(`c-${at}`, {
          size,
          layers: Object.fromEntries(layers.map((one) => [`layer-${one}`, one])),
          labels: isStep ? step : {},
          isDeleted,
        }),
      );
      const storage = new Storage(all);
      const total = storage.usedBytes;
      const stored = new Set(given.flatMap(({ layers }) => layers));
      expect(total).toBe([...given.map(({ size }) => size), ...stored].reduce((sum, one) => sum + one, 0));
      expect(storage.bytesOf(all)).toEqual({ uniqueBytes: total, sharedBytes: 0 });
      const unique = all.reduce((sum, one) => sum + storage.bytesOf([one]).uniqueBytes, 0);
      expect(unique).toBeLessThanOrEqual(total);
    }),
  );
});
