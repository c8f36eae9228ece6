import { expect, it } from "vitest";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { buildProgram, runProgram } from "../program.ts";
import { positionOf } from "./candidates.ts";

const program = buildProgram(memoryIo(), () => () => Promise.resolve());
const at = (...words: string[]) => positionOf(program, words);

it("completes commands and options from their definitions", () => {
  expect(at("").candidates).toEqual(expect.arrayContaining(["sandbox", "explain", "doctor", "completion"]));
  expect(at("").candidates).not.toContain("__complete");
  expect(at("sandbox", "").candidates).toEqual(expect.arrayContaining(["create", "shell", "port-forward"]));
  expect(at("sbx", "rm", "--").candidates).toEqual(expect.arrayContaining(["--failed", "--namespace"]));
  expect(at("sandbox", "ls", "-o", "").candidates).toEqual(["table", "json", "yaml", "name"]);
});

it("completes names of objects in the namespace that was given", () => {
  expect(at("sandbox", "exec", "")).toMatchObject({ namesOf: "sandbox" });
  expect(at("sandbox", "get", "-n", "team-a", "a", "")).toMatchObject({ namesOf: "sandbox", namespace: "team-a" });
  expect(at("checkpoint", "create", "")).toMatchObject({ namesOf: "sandbox" });
  expect(at("get", "").candidates).toContain("snapshot");
  expect(at("rm", "set", "")).toMatchObject({ namesOf: "set" });
  expect(at("explain", "").candidates).toContain("sandbox/");
  expect(at("explain", "set/")).toMatchObject({ namesOf: "set", prefix: "set/" });
});

it("prints only candidates that fit, also without a cluster", async () => {
  const io = memoryIo({ environment: { HOME: "/nowhere", XDG_DATA_HOME: "/nowhere" } });
  expect(await runProgram(io, ["__complete", "--", "sandbox", "po"])).toBe(0);
  expect(io.written("stdout")).toBe("port-forward\n");
  const empty = memoryIo({ environment: { HOME: "/nowhere", XDG_DATA_HOME: "/nowhere" } });
  expect(await runProgram(empty, ["__complete", "--", "sandbox", "get", ""])).toBe(0);
  expect(empty.written("stdout") + empty.written("stderr")).toBe("");
});

it.each(["bash", "zsh", "fish"])("prints a script for %s that calls it", async (shell) => {
  const io = memoryIo();
  expect(await runProgram(io, ["completion", shell])).toBe(0);
  expect(io.written("stdout")).toContain("ramet __complete --");
});
