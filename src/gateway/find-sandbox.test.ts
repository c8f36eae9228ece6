import { expect, it } from "vitest";
import { findSandbox } from "./router.ts";
import { readRoutedSandbox, type RoutedSandbox } from "./routed-sandbox.ts";

const uid = "11111111-2222-4333-8444-555555555555";

function sandboxes(...keys: string[]) {
  const all = new Map(
    keys.map((key): [string, RoutedSandbox] => {
      const [namespace = "", name = ""] = key.split("/");
      return [key, readRoutedSandbox({ metadata: { namespace, name, uid, resourceVersion: "1" } })];
    }),
  );
  return { get: (key: string) => all.get(key), byUid: () => [...all.values()][0] };
}

const found = (id: string, ...keys: string[]) => {
  const { places, sandbox } = findSandbox(sandboxes(...keys), id);
  return [...places.map(({ namespace, name }) => `${namespace}/${name}`), sandbox !== undefined];
};

it("finds a sandbox by namespace and name, and by UID", () => {
  expect(found("a--b", "a/b")).toEqual(["a/b", true]);
  expect(found(uid, "a/b")).toEqual(["a/b", true]);
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

it("reads public ports from the annotation, and none from an invalid one", () => {
  const ports = (text: string) =>
    readRoutedSandbox({
      metadata: {
        namespace: "a",
        name: "b",
        uid,
        resourceVersion: "1",
        annotations: { "ramet.dev/public-ports": text },
      },
    }).publicPorts;
  expect(ports("8000, 3000")).toEqual([8000, 3000]);
  for (const text of ["", "all", "8000-9000", "8000,*", "-1"]) expect(ports(text)).toEqual([]);
});
