import { expect, it } from "vitest";
import { unmetNeed } from "./restore-source.ts";

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

it("takes what the very same build took", () => {
  expect(unmetNeed(memory, own)).toBeUndefined();
});

it("names the need that is not met, and what to do", () => {
  const otherBuild = { ...own, version: "20261001.0" };
  expect(unmetNeed(memory, otherBuild)).toMatchObject({
    code: "NeedNotMet",
    message: "The checkpoint c-1 cannot be restored here: it needs gVisor 20260905.0, and the cell has 20261001.0",
    hint: "Run the cell image that it was taken with, or take it again with this one; a checkpoint of [filesystem] is not bound to a build",
  });
  const otherNode = { ...own, architecture: "arm64" };
  expect(unmetNeed(files, otherNode)).toMatchObject({
    code: "NeedNotMet",
    message:
      "The checkpoint c-1 cannot be restored here: it needs a node of the architecture amd64, and this one is arm64",
    hint: "Give the clone's template the nodeSelector kubernetes.io/arch: amd64",
  });
});

it("names another guest, whose text the memory refers to", () => {
  expect(unmetNeed(memory, { ...own, guest: digestOf("b") })).toMatchObject({
    code: "NeedNotMet",
    message:
      "The checkpoint c-1 cannot be restored here: it needs the guest sha256:aaaaaaaaaaaa, and the cell has sha256:bbbbbbbbbbbb",
  });
  expect(unmetNeed(files, { ...own, guest: digestOf("b") })).toBeUndefined();
});

it("takes files under any build", () => {
  expect(unmetNeed(files, { ...own, version: "20261001.0" })).toBeUndefined();
});
