import { expect, it } from "vitest";
import type { CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { ObjectStore } from "../../kube/store.ts";
import { NodeCpus, parseCpuList } from "./node-cpus.ts";
import { Node } from "./nodes.ts";

const build = (cpuFeatures: string[], version = "v1") => ({
  version,
  architecture: "amd64",
  guest: `sha256:${"0".repeat(64)}`,
  cpuFeatures,
});
const parts = (cpuFeatures: string[], engine = "v1"): CheckpointPart[] => [
  {
    backend: "cell",
    handle: "h",
    contents: ["memory", "filesystem"],
    cutAt: "2030-01-01T00:00:00Z",
    sizeBytes: 1,
    consistency: "atomic",
    needs: { architecture: "amd64", engine, platform: "systrap", cpuFeatures },
  },
];
const node = (name: string, bootID = "boot-1") =>
  Node.parse({ metadata: { name, uid: name, resourceVersion: bootID }, status: { nodeInfo: { bootID } } });

function world(names: string[], data: Record<string, string> = {}) {
  const store = new ObjectStore<Node>(() => undefined);
  store.replace(
    names.map((name) => node(name)),
    true,
  );
  const saved = new Map(Object.entries(data));
  const open = () =>
    new NodeCpus({ store }, parseCpuList(Object.fromEntries(saved)), (changes) => {
      for (const [key, value] of Object.entries(changes)) {
        if (value === null) saved.delete(key);
        else saved.set(key, value);
      }
      return Promise.resolve();
    });
  return { store, saved, open };
}

it("remembers what cells have reported, also for the next process", () => {
  const { open, saved } = world(["a", "b"]);
  const first = open();
  first.learn("a", build(["sse2"]));
  first.learn("b", build(["sse2", "avx2"]));
  expect([...saved.keys()].filter((key) => key.startsWith("cpu."))).toHaveLength(2);
  for (const cpus of [first, open()]) {
    expect(cpus.plan(parts(["avx2"])).lacking).toEqual(["a"]);
    expect([cpus.lacks("a", parts(["avx2"])), cpus.lacks("b", parts(["avx2"]))]).toEqual([true, false]);
    expect([cpus.lacks("unknown", parts(["avx2"])), cpus.lacks(undefined, parts(["avx2"]))]).toEqual([false, false]);
  }
});

it("compares only reports of the gVisor that restores the memory, because each version knows other features", () => {
  const { open } = world(["a"]);
  const cpus = open();
  cpus.learn("a", build(["sse2"], "old"));
  expect(cpus.lacks("a", parts(["sse2", "new-name"], "new"))).toBe(false);
  cpus.learn("a", build(["sse2"], "new"));
  expect(cpus.lacks("a", parts(["sse2", "new-name"], "new"))).toBe(true);
});

it("joins reports of one start of the machine, so that one cell cannot hide a feature for long", () => {
  const { open } = world(["a"]);
  const cpus = open();
  cpus.learn("a", build(["nothing"]));
  expect(cpus.lacks("a", parts(["avx2"]))).toBe(true);
  cpus.learn("a", build(["avx2"]));
  expect(cpus.lacks("a", parts(["avx2"]))).toBe(false);
  cpus.learn("a", build(["nothing"]));
  expect(cpus.lacks("a", parts(["avx2"]))).toBe(false);
});

it("forgets a node when its machine starts again, and when it is removed", () => {
  const { open, store, saved } = world(["a", "b"]);
  const cpus = open();
  cpus.learn("a", build(["sse2"]));
  cpus.learn("b", build(["sse3"]));
  store.put(node("a", "boot-2"));
  expect(cpus.plan(parts(["avx2"])).lacking).toEqual(["b"]);
  store.replace([node("a", "boot-2")], true);
  expect([...saved.keys()].sort()).toEqual(["a", expect.stringMatching(/^cpu\./)]);
});

it("ignores reports that no CPU makes, and entries that are not valid", () => {
  const { open, saved } = world(["a"], { a: "{", "cpu.0123456789ab": "x".repeat(100), other: '{"boot":1}' });
  const cpus = open();
  for (const features of [[], Array.from({ length: 2_000 }, (_, at) => `f${at}`), ["a,b"], ["x".repeat(50)]])
    cpus.learn("a", build(features));
  cpus.learn("unknown", build(["sse2"]));
  cpus.learn(undefined, build(["sse2"]));
  expect([...saved.keys()]).toEqual(["a", "cpu.0123456789ab", "other"]);
  expect(cpus.plan(parts(["avx2"])).lacking).toEqual([]);
});

it("knows which nodes limit ephemeral storage, as kubelets do", () => {
  const store = new ObjectStore<Node>(() => undefined);
  const status = { allocatable: { cpu: "2", "ephemeral-storage": "100Gi" } };
  const kubelet = Node.parse({ metadata: { name: "k", uid: "k", resourceVersion: "1" }, status });
  store.replace([kubelet, node("local")], true);
  const cpus = new NodeCpus({ store });
  expect(["k", "local", "unknown", undefined].map((name) => cpus.limitsStorage(name))).toEqual([
    true,
    false,
    false,
    false,
  ]);
});
