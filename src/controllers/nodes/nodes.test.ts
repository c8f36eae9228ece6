import { expect, it } from "vitest";
import { nodesWithoutUserNamespaces } from "./nodes.ts";

const node = (name: string, userNamespaces: boolean | undefined, unschedulable = false) => ({
  metadata: { name, uid: name, resourceVersion: "1" },
  spec: { unschedulable },
  status: { runtimeHandlers: userNamespaces === undefined ? [] : [{ name: "", features: { userNamespaces } }] },
});

it("names the schedulable nodes whose kubelet does not report support for user namespaces", () => {
  const nodes = [node("yes", true), node("no", false), node("old", undefined), node("cordoned", false, true)];
  expect(nodesWithoutUserNamespaces(nodes)).toEqual(["no", "old"]);
  expect(nodesWithoutUserNamespaces([node("yes", true)])).toEqual([]);
  // The next Pod waits for the node of a sandbox that was drained.
  expect(nodesWithoutUserNamespaces([node("drained", true, true)])).toEqual([]);
  expect(nodesWithoutUserNamespaces([node("drained", true, true), node("no", false, true)])).toEqual(["no"]);
  expect(nodesWithoutUserNamespaces([])).toEqual(["none is known"]);
});
