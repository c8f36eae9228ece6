import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { isShared } from "./share-stored.ts";

const metaOf = (name: string) => ({ name, namespace: "t", uid: name, resourceVersion: "1", creationTimestamp: "" });
const checkpoint = (name: string) =>
  Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: metaOf(name),
    spec: { sandboxName: "a" },
    status: { phase: "Succeeded", checkpointId: `id-${name}` },
  });
const sandbox = Sandbox.parse({
  apiVersion: "agents.kruise.io/v1alpha1",
  kind: "Sandbox",
  metadata: metaOf("a"),
  spec: {},
});

/** @param users what refers to the layer `t/id-layer` */
function isKept(users: (Checkpoint | Sandbox)[]): boolean {
  return isShared(checkpoint("layer"), {
    captures: { shares: () => false },
    cache: {
      checkpointsOfData: () => [],
      usersOfLayer: (namespace: string, id: string) => (`${namespace}/${id}` === "t/id-layer" ? users : []),
    },
  } as unknown as Parameters<typeof isShared>[1]);
}

it("keeps the data of a layer while another Checkpoint or a sandbox uses it", () => {
  expect(isKept([checkpoint("version")])).toBe(true);
  expect(isKept([sandbox])).toBe(true);
});

it("removes the data of a layer that only its own Checkpoint names", () => {
  expect(isKept([checkpoint("layer")])).toBe(false);
  expect(isKept([])).toBe(false);
});

const digestOf = (digit: string) => `sha256:${digit.repeat(64)}`;
const part = { backend: "cell", contents: ["filesystem"], cutAt: "2030-01-01T00:00:00Z", consistency: "atomic" };
const withData = (name: string, handle: string, phase = "Succeeded") =>
  Checkpoint.parse({
    ...checkpoint(name),
    metadata: { ...metaOf(name), labels: { "ramet.dev/data-of": "id-pause" } },
    status: { phase, checkpointId: `id-${name}`, ramet: { parts: [{ ...part, handle, sizeBytes: 1 }] } },
  });

it("keeps the data of a paused sandbox for those that share it, and for no label of a user", () => {
  const pause = withData("pause", digestOf("a"));
  const isKeptFor = (one: Checkpoint) =>
    isShared(pause, {
      captures: { shares: () => false },
      cache: { checkpointsOfData: () => [pause, one], usersOfLayer: () => [] },
    } as unknown as Parameters<typeof isShared>[1]);
  expect(isKeptFor(withData("copy", digestOf("a")))).toBe(true);
  // It may be about to share, or was written by an earlier release.
  expect(isKeptFor(withData("copy", digestOf("b"), "Creating"))).toBe(true);
  expect(isKeptFor(checkpoint("copy"))).toBe(true);
  expect(isKeptFor(withData("copy", digestOf("b")))).toBe(false);
});
