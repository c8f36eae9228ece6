import { expect, it } from "vitest";
import { ContainerSpec } from "../../api/wire/cell-api.ts";
import { otherImage, tooLarge, unmetNeed } from "./restore-source.ts";

const digestOf = (digit: string) => `sha256:${digit.repeat(64)}`;
const own = { version: "20260905.0", architecture: "amd64", guest: digestOf("a") };
const engine = {
  name: "gvisor",
  version: "20260905.0",
  platform: "systrap",
  architecture: "amd64",
  guest: digestOf("a"),
} as const;
const memory = { checkpointId: "c-1", contents: ["memory", "filesystem"] as ["memory", "filesystem"], engine };
const files = { ...memory, contents: ["filesystem"] as ["filesystem"] };

it("accepts a checkpoint of the same build", () => {
  expect(unmetNeed(memory, own)).toBeUndefined();
});

it("names the unmet need and what to do", () => {
  const otherBuild = { ...own, version: "20261001.0" };
  expect(unmetNeed(memory, otherBuild)).toMatchObject({
    code: "NeedNotMet",
    message: "restoring checkpoint c-1 failed: it needs gVisor 20260905.0, but the cell has 20261001.0",
    hint: "Run the cell image that captured it, or capture it again with this one; a checkpoint of [filesystem] alone works with any build",
  });
  const otherNode = { ...own, architecture: "arm64" };
  expect(unmetNeed(files, otherNode)).toMatchObject({
    code: "NeedNotMet",
    message: "restoring checkpoint c-1 failed: it needs a node with architecture amd64, but this one is arm64",
    hint: "Add to the clone's template the nodeSelector kubernetes.io/arch: amd64",
  });
});

it("rejects the memory of another guest, whose program text it refers to", () => {
  expect(unmetNeed(memory, { ...own, guest: digestOf("b") })).toMatchObject({
    code: "NeedNotMet",
    message:
      "restoring checkpoint c-1 failed: it needs guest sha256:aaaaaaaaaaaa, but the cell has sha256:bbbbbbbbbbbb",
  });
  expect(unmetNeed(files, { ...own, guest: digestOf("b") })).toBeUndefined();
});

it("accepts files from any build", () => {
  expect(unmetNeed(files, { ...own, version: "20261001.0" })).toBeUndefined();
});

it("names the CPU features that the node lacks, and compares nothing that is unknown", () => {
  const needing = { ...memory, engine: { ...engine, cpuFeatures: ["sse2", "avx2", "avx512f"] } };
  expect(unmetNeed(needing, { ...own, cpuFeatures: ["sse2"] })?.message).toBe(
    "restoring checkpoint c-1 failed: it needs the CPU features avx2, avx512f, which the node's CPU does not have",
  );
  expect(unmetNeed(needing, { ...own, cpuFeatures: ["sse2", "avx2", "avx512f", "amx"] })).toBeUndefined();
  expect(unmetNeed(needing, own)).toBeUndefined();
  expect(unmetNeed(memory, { ...own, cpuFeatures: ["sse2"] })).toBeUndefined();
  expect(unmetNeed({ ...files, engine: needing.engine }, { ...own, cpuFeatures: ["sse2"] })).toBeUndefined();
});

it("needs the layer of the memory, or room for the files, whatever else the clone has", () => {
  const gibibyte = 1024 ** 3;
  const container = { ...ContainerSpec.parse({ name: "main", image: "a" }), envNames: [] };
  const sized = {
    checkpointId: "c-1",
    container,
    files: [{ name: "pages.img", sizeBytes: 2 * gibibyte, digest: digestOf("c") }],
  };
  const layer = (gibibytes: number, isLayerLimited = true) => ({ layerBytes: gibibytes * gibibyte, isLayerLimited });
  expect(tooLarge(sized, memory.contents, layer(10))).toBeUndefined();
  expect(tooLarge(sized, files.contents, layer(2))).toBeUndefined();
  expect(tooLarge(sized, memory.contents, layer(9, false))).toBeUndefined();
  // Its namespace had another default when it was captured.
  const large = { ...sized, container: { ...container, resources: { storageBytes: 20 * gibibyte } } };
  expect(tooLarge(large, memory.contents, layer(10, false))).toBeUndefined();
  expect(tooLarge(large, memory.contents, layer(10))).toMatchObject({ code: "NeedNotMet" });
  expect(tooLarge(sized, memory.contents, layer(9))).toMatchObject({
    code: "NeedNotMet",
    message: "restoring checkpoint c-1 failed: it needs a writable layer of 10Gi, but the sandbox has 9Gi",
    hint: "Raise the container's resources.limits.ephemeral-storage",
  });
  expect(tooLarge(sized, files.contents, layer(1, false))).toMatchObject({
    message: "restoring checkpoint c-1 failed: it needs a writable layer of 2Gi, but the sandbox has 1Gi",
  });
});

it("says how files get the image back that was replaced under its name", () => {
  const image = { name: "python", digest: digestOf("a") };
  const own = { name: "python", digest: digestOf("b") };
  expect(otherImage({ ...files, image, files: [] }, image)).toBeUndefined();
  expect(otherImage({ ...files, image, files: [] }, { ...image, name: "earlier" })).toBeUndefined();
  expect(otherImage({ ...files, image, files: [] }, own)).toMatchObject({
    code: "ImageReplaced",
    message:
      "restoring checkpoint c-1 failed: its files need the image python as sha256:aaaaaaaaaaaa, but this one is sha256:bbbbbbbbbbbb",
    hint: expect.stringContaining("give the earlier image this name again") as string,
  });
});
