import { expect, it } from "vitest";
import { unmetNeed } from "./needs.ts";

const engine = { name: "gvisor", version: "20260905.0", platform: "systrap", architecture: "amd64" } as const;
const memory = { checkpointId: "c-1", contents: ["memory", "filesystem"] as ["memory", "filesystem"], engine };
const files = { ...memory, contents: ["filesystem"] as ["filesystem"] };

it("takes what the very same build took", () => {
  expect(unmetNeed(memory, { version: "20260905.0", architecture: "amd64" })).toBeUndefined();
});

it("names the need that is not met, and what to do", () => {
  const otherBuild = { version: "20261001.0", architecture: "amd64" };
  expect(unmetNeed(memory, otherBuild)).toMatchObject({
    code: "NeedNotMet",
    message: "The checkpoint c-1 cannot be restored here: it needs gVisor 20260905.0, and the cell has 20261001.0",
    hint: "Run the cell image that it was taken with, or take it again with this one; a checkpoint of [filesystem] is not bound to a build",
  });
  const otherNode = { version: "20260905.0", architecture: "arm64" };
  expect(unmetNeed(files, otherNode)).toMatchObject({
    code: "NeedNotMet",
    message:
      "The checkpoint c-1 cannot be restored here: it needs a node of the architecture amd64, and this one is arm64",
    hint: "Give the clone's template the nodeSelector kubernetes.io/arch: amd64",
  });
});

it("takes files under any build", () => {
  expect(unmetNeed(files, { version: "20261001.0", architecture: "amd64" })).toBeUndefined();
});
