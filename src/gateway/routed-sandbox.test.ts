import { expect, it } from "vitest";
import { type RoutedSandbox, findSandbox, isPublicPort, readRoutedSandbox } from "./routed-sandbox.ts";

const uid = "11111111-2222-4333-8444-555555555555";

function sandboxes(...keys: string[]) {
  const all = new Map(
    keys.map((key): [string, RoutedSandbox] => {
      const [namespace = "", name = ""] = key.split("/");
      return [key, readRoutedSandbox({ metadata: { namespace, name, uid, resourceVersion: "1" } })];
    }),
  );
  return {
    get: (key: string) => all.get(key),
    byUid: (uid: string) => [...all.values()].find(({ metadata }) => metadata.uid === uid),
  };
}

const found = (id: string, ...keys: string[]) => {
  const { places, sandbox } = findSandbox(sandboxes(...keys), id);
  return [...places.map(({ namespace, name }) => `${namespace}/${name}`), sandbox !== undefined];
};

it("finds a sandbox by namespace and name, and by UID", () => {
  expect(found("a--b", "a/b")).toEqual(["a/b", true]);
  expect(found(uid, "a/b")).toEqual(["a/b", true]);
  expect(found(uid.replaceAll("-", ""), "a/b")).toEqual(["a/b", true]);
});

it("returns the place of a missing sandbox, so that access to it can be checked", () => {
  expect(found("a--b")).toEqual(["a/b", false]);
  expect(found(uid)).toEqual([false]);
  expect(found("nothing")).toEqual([false]);
});

it("rejects an id that can be split in two ways, even if at most one sandbox exists", () => {
  for (const existing of [[], ["a--b/c"], ["a/b--c"], ["a--b/c", "a/b--c"]]) {
    expect(() => found("a--b--c", ...existing)).toThrow("The id a--b--c is ambiguous");
  }
  expect(found("a---b", "a-/b", "a/-b")).toEqual([false]);
});

const withPorts = (text: string) =>
  readRoutedSandbox({
    metadata: {
      namespace: "a",
      name: "b",
      uid,
      resourceVersion: "1",
      annotations: { "ramet.dev/public-ports": text },
    },
  });

it("reads public ports from the annotation, and none from an invalid one", () => {
  const { publicPorts } = withPorts("8000, 3000");
  expect(publicPorts).toEqual([8000, 3000]);
  for (const text of ["", "all", "8000-9000", "8000,*", "**", "-1"]) expect(withPorts(text).publicPorts).toEqual([]);
});

it("opens all ports by *, but not those through which clients enter the sandbox", () => {
  const isPublic = (text: string, port: number) => isPublicPort(withPorts(text), port);
  for (const port of [1, 8000, 49979, 49984, 65535]) expect([port, isPublic(" * ", port)]).toEqual([port, true]);
  for (const port of [49980, 49981, 49982, 49983, 49999]) expect([port, isPublic("*", port)]).toEqual([port, false]);
  // A port that is named is open, but not the reports of the cell.
  expect([49983, 49999, 49981].map((port) => isPublic("49983,49999,49981", port))).toEqual([true, true, false]);
});
