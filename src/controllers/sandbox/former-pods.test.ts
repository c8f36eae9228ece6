import { expect, it } from "vitest";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { localNodeLabels } from "../../api/names/system-names.ts";
import { Pod } from "../../api/schema/pod.ts";
import type { KubeObject } from "../../kube/object.ts";
import { ObjectStore } from "../../kube/store.ts";
import { Node } from "../nodes/nodes.ts";
import { FormerPods } from "./former-pods.ts";

const metadata = {
  name: "a",
  namespace: "t",
  uid: "uid-a",
  resourceVersion: "1",
  creationTimestamp: "2030-01-01T00:00:00Z",
};
let version = 1;
const pod = (uid: string, { nodeName = "n", status = {} }: { nodeName?: string; status?: object } = {}): Pod =>
  Pod.parse({
    metadata: { ...metadata, uid, resourceVersion: `${++version}` },
    spec: { nodeName, containers: [{ name: "main", image: "cell" }] },
    status: { phase: "Running", podIP: "10.0.0.1", ...status },
  });
const sandbox = (podUID?: string, ramet: object = {}): Sandbox =>
  Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata,
    spec: {},
    status:
      podUID === undefined
        ? { ramet }
        : { podInfo: { podUID }, sandboxIp: "10.0.0.1", ramet: { cellKey: "key", ...ramet } },
  });

function world() {
  const store = <T extends KubeObject>() =>
    new ObjectStore<T>((error) => {
      throw error;
    });
  const [pods, nodes] = [store<Pod>(), store<Node>()];
  nodes.put(
    Node.parse({
      metadata: { name: "local", uid: "l", resourceVersion: "1", labels: localNodeLabels },
      spec: {},
      status: {},
    }),
  );
  const formerPods = new FormerPods({ pods: { store: pods }, nodes: { store: nodes } });
  const uids = (own: Sandbox, captured?: string) => formerPods.of(own, captured).map(({ podUID }) => podUID);
  const target = { namespace: "t", name: "a", uid: "uid-a", podIp: "10.0.0.1", claims: [] };
  const remove = (uid: string, of: Parameters<typeof pod>[1] = {}) => {
    pods.put(pod(uid));
    pods.put(pod(uid, of));
    pods.remove(pod(uid, of), true);
  };
  return { formerPods, nodes, remove, uids, target };
}

it("knows the Pod in which the sandbox ran, and the one in which it was being started, if they were removed by force", () => {
  const { formerPods, remove, uids, target } = world();
  formerPods.starts(sandbox(), { ...target, podUid: "second", cellKey: "other" });
  remove("first");
  remove("second");
  expect(uids(sandbox("first"))).toEqual(["first", "second"]);
  expect(uids(sandbox(undefined))).toEqual(["second"]);
  formerPods.ended("second");
  expect(uids(sandbox("first"))).toEqual(["first"]);
  formerPods.forget("t/a");
  expect(uids(sandbox("first"))).toEqual(["first"]);
  const startingPod = { podUID: "third", podIP: "10.0.0.3", cellKey: "third" };
  expect(uids(sandbox("first", { startingPod }))).toEqual(["first", "third"]);
});

it.each([
  ["its node has reported its end", { status: { phase: "Succeeded" } }],
  ["its node is that of a local cluster", { nodeName: "local" }],
])("leaves alone a Pod if %s", (_, of) => {
  const { remove, uids } = world();
  remove("first", of);
  expect(uids(sandbox("first"))).toEqual([]);
});

it("does not take the word of Kubernetes for that of a silent node", () => {
  const { remove, uids } = world();
  const conditions = [{ type: "DisruptionTarget", status: "True", reason: "DeletionByPodGC" }];
  remove("first", { status: { phase: "Failed", conditions } });
  expect(uids(sandbox("first"))).toEqual(["first"]);
});

it("leaves alone what a capture has left paused, and cells that were never identified", () => {
  const { formerPods, remove, uids, target } = world();
  remove("first");
  expect(uids(sandbox("first"), "first")).toEqual([]);
  formerPods.starts(sandbox(), { ...target, podUid: "second" });
  expect(uids(sandbox())).toEqual([]);
});

it("has a start recorded on every node that can be away", () => {
  const { formerPods, nodes, target } = world();
  nodes.put(Node.parse({ metadata: { name: "n", uid: "n", resourceVersion: "1" }, spec: {}, status: {} }));
  const cell = { ...target, podUid: "first", cellKey: "key" };
  for (const name of ["n", "whose Node was deleted"])
    expect(formerPods.starts(sandbox(), cell, name)).toEqual({ podUID: "first", podIP: "10.0.0.1", cellKey: "key" });
  expect(formerPods.starts(sandbox(), cell, "local")).toBeUndefined();
});

it("knows the cell in which the sandbox is being started", () => {
  const { formerPods, target } = world();
  formerPods.starts(sandbox(), { ...target, podUid: "first", cellKey: "key" });
  expect(formerPods.startingIn(pod("first"))).toEqual({ podUID: "first", podIP: "10.0.0.1", cellKey: "key" });
  expect(formerPods.startingIn(pod("second"))).toBeUndefined();
});
