import { expect, it } from "vitest";
import { pathBelow } from "./file-routes.ts";

it.each([
  ["/workspace", "/workspace"],
  ["workspace/a b", "/workspace/a b"],
  ["/workspace/../etc/", "/etc"],
  ["/", "/"],
  ["//a", "/a"],
])("makes %s absolute", (text, path) => {
  expect(pathBelow(text)).toBe(path);
});

it.each(["/etc", "/workspace/../etc", "/workspaces", "/"])("does not leave the root by %s", (text) => {
  expect(() => pathBelow(text, "/workspace")).toThrow("path must be below /workspace");
});

it("rejects characters of other commands", () => {
  expect(() => pathBelow("/a\0b")).toThrow("path contains a character");
});
