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
