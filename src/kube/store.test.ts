import { describe, expect, it } from "vitest";
import { ObjectStore } from "./store.ts";

const pod = (name: string, uid: string, resourceVersion: string, node = "n1") => ({
  metadata: { name, namespace: "x", uid, resourceVersion },
  node,
});
type Pod = ReturnType<typeof pod>;

function newStore() {
  const errors: unknown[] = [];
  const store = new ObjectStore<Pod>((error) => errors.push(error));
  const seen: string[] = [];
  store.subscribe(({ type, object }) => seen.push(`${type} ${object.metadata.uid}`));
  return { store, seen, errors };
}

describe("ObjectStore", () => {
  it("finds objects by key, UID and index, also after a change and by an index that was added later", () => {
    const { store } = newStore();
    const onNode = store.index((object) => [object.node]);
    store.put(pod("a", "1", "v1", "n1"));
    store.put(pod("b", "2", "v2", "n1"));
    store.put(pod("b", "2", "v3", "n2"));
    expect(store.get("x/a")?.metadata.uid).toBe("1");
    expect(store.byUid("2")?.node).toBe("n2");
    expect(onNode("n1").map((object) => object.metadata.name)).toEqual(["a"]);
    expect(store.index((object) => [object.node])("n2")).toHaveLength(1);
    store.remove(pod("b", "2", "v4", "n2"), true);
    expect(onNode("n2")).toEqual([]);
  });

  it("reports a recreated object as deleted, then added", () => {
    const { store, seen } = newStore();
    store.put(pod("a", "1", "v1"));
    store.put(pod("a", "2", "v2"));
    expect(seen).toEqual(["added 1", "deleted 1", "added 2"]);
  });

  it("ignores events that arrive twice or too late", () => {
    const { store, seen } = newStore();
    store.put(pod("a", "1", "v1"));
    store.put(pod("a", "1", "v1"));
    store.put(pod("a", "2", "v2"));
    store.put(pod("a", "1", "v1"));
    store.remove(pod("a", "1", "v1"), true);
    expect(seen).toEqual(["added 1", "deleted 1", "added 2"]);
    store.remove(pod("a", "2", "v3"), true);
    store.put(pod("a", "2", "v2"));
    expect(store.size).toBe(0);
  });

  it("adds an object again that had left the selection", () => {
    const { store, seen } = newStore();
    store.put(pod("a", "1", "v1"));
    store.remove(pod("a", "1", "v2"), false);
    store.put(pod("a", "1", "v3"));
    expect(seen).toEqual(["added 1", "deleted 1", "added 1"]);
  });

  it("reports the changes of a new list", () => {
    const { store, seen } = newStore();
    for (const [name, uid] of Object.entries({ a: "1", b: "2", c: "3" })) store.put(pod(name, uid, "v1"));
    seen.length = 0;
    store.replace([pod("a", "1", "v1"), pod("b", "2", "v9"), pod("c", "4", "v8"), pod("d", "5", "v7")], true);
    expect(seen).toEqual(["deleted 3", "updated 2", "added 4", "added 5"]);
  });

  it("replaces the objects of one namespace only, and counts its lists apart", () => {
    const { store, seen } = newStore();
    const of = (namespace: string, uid: string) => ({
      ...pod(uid, uid, "v1"),
      metadata: { ...pod(uid, uid, "v1").metadata, namespace },
    });
    for (const object of [of("a", "1"), of("ab", "2"), of("b", "3")]) store.put(object);
    seen.length = 0;
    store.replace([of("a", "4")], true, "a");
    expect(seen).toEqual(["deleted 1", "added 4"]);
    expect([store.listsOf("a"), store.listsOf("ab")]).toEqual([1, 0]);
    store.replace([], true);
    expect([store.listsOf("a"), store.listsOf("ab"), store.size]).toEqual([2, 1, 0]);
  });

  it("calls the other listeners when one throws", () => {
    const { store, errors } = newStore();
    store.subscribe(() => {
      throw new Error("mine");
    });
    const later: string[] = [];
    store.subscribe(({ type }) => later.push(type));
    store.put(pod("a", "1", "v1"));
    expect(later).toEqual(["added"]);
    expect(errors).toHaveLength(1);
  });
});

describe("ObjectStore with excluded objects", () => {
  const withExclusion = () => {
    const excludedNodes = new Set(["out"]);
    const store = new ObjectStore<Pod>(
      () => undefined,
      ({ node }) => excludedNodes.has(node),
    );
    const seen: string[] = [];
    store.subscribe(({ type, object }) => seen.push(`${type} ${object.metadata.uid}`));
    return { store, seen, excludedNodes };
  };

  it("shows an excluded object to no reader, and follows its change in both directions", () => {
    const { store, seen } = withExclusion();
    const onNode = store.index((object) => [object.node]);
    store.put(pod("a", "1", "v1", "out"));
    expect([store.get("x/a"), store.byUid("1"), store.list(), onNode("out")]).toEqual([undefined, undefined, [], []]);
    expect(store.excluded()).toHaveLength(1);
    store.put(pod("a", "1", "v2", "in"));
    store.put(pod("a", "1", "v3", "out"));
    store.put(pod("a", "1", "v4", "in"));
    expect(seen).toEqual(["added 1", "deleted 1", "added 1"]);
    expect(store.excluded()).toEqual([]);
  });

  it("applies a changed rule to known objects, without a new version of them", () => {
    const { store, seen, excludedNodes } = withExclusion();
    store.put(pod("a", "1", "v1", "n1"));
    store.put(pod("b", "2", "v1", "n2"));
    excludedNodes.add("n1").add("n2");
    store.reconsider(({ metadata }) => metadata.name === "a");
    expect(store.list().map(({ metadata }) => metadata.name)).toEqual(["b"]);
    excludedNodes.clear();
    store.reconsider(() => true);
    expect(seen).toEqual(["added 1", "added 2", "deleted 1", "added 1"]);
  });

  it("forgets an excluded object that is deleted, is recreated or is missing from a list", () => {
    const { store, seen } = withExclusion();
    store.put(pod("a", "1", "v1", "out"));
    store.remove(pod("a", "1", "v2", "out"), true);
    store.put(pod("a", "1", "v1", "out"));
    expect(store.excluded()).toEqual([]);
    store.put(pod("b", "2", "v1", "out"));
    store.put(pod("b", "3", "v2", "in"));
    store.put(pod("c", "4", "v1", "out"));
    store.replace([pod("b", "3", "v2", "in")], true);
    expect([store.excluded(), seen]).toEqual([[], ["added 3"]]);
  });

  it("reports the deletion of an object whose successor is excluded", () => {
    const { store, seen } = withExclusion();
    store.put(pod("a", "1", "v1", "in"));
    store.put(pod("a", "2", "v2", "out"));
    store.put(pod("a", "1", "v1", "in"));
    expect(seen).toEqual(["added 1", "deleted 1"]);
    expect(store.excluded()).toHaveLength(1);
  });
});
