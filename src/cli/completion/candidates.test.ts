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

it("completes names of objects of the kind that an argument or an option takes", () => {
  expect(at("sandbox", "exec", "").namesOf).toEqual(["sandbox"]);
  expect(at("sandbox", "exec", "a", "").namesOf).toEqual([]);
  expect(at("sandbox", "cp", "")).toMatchObject({ namesOf: ["sandbox"], suffix: ":" });
  expect(at("sandbox", "create", "--template", "").namesOf).toEqual(["template"]);
  expect(at("sandbox", "create", "--from", "").namesOf).toEqual(["checkpoint", "snapshot"]);
  expect(at("checkpoint", "create", "").namesOf).toEqual(["sandbox"]);
  expect(at("rollback", "a", "").namesOf).toEqual(["checkpoint", "snapshot"]);
  expect(at("snapshot", "upload", "").namesOf).toEqual([]);
  expect(at("key", "create", "").namesOf).toEqual([]);
  expect(at("claim", "")).toMatchObject({ namesOf: ["set"] });
  expect(at("claim", "").candidates).toContain("ls");
  expect(at("claim", "python", "--").candidates).toContain("--no-create");
  expect(at("claim", "get", "").namesOf).toEqual(["claim"]);
  expect(at("get", "").candidates).toContain("snapshot");
  expect(at("rm", "set", "").namesOf).toEqual(["set"]);
  expect(at("get", "sandboxes", "").namesOf).toEqual(["sandbox"]);
  expect(at("explain", "").candidates).toContain("sandbox/");
  expect(at("explain", "set/")).toMatchObject({ namesOf: ["set"], prefix: "set/" });
  expect(at("explain", "volumesnapshot/")).toMatchObject({ namesOf: ["volumesnapshot"], prefix: "volumesnapshot/" });
});

it("uses the cluster and the namespace that the words select", () => {
  const { cluster, namesOf } = at("sandbox", "get", "-n", "team-a", "--kubeconfig=/k", "--context", "c", "a", "");
  expect(cluster).toEqual({ namespace: "team-a", kubeconfig: "/k", context: "c" });
  expect(namesOf).toEqual(["sandbox"]);
  expect(at("set", "ls", "-nteam-a", "-o", "").cluster).toEqual({ namespace: "team-a" });
  expect(at("set", "ls", "-n", "").namesOf).toEqual(["namespace"]);
  expect(at("set", "ls", "--context", "").namesOf).toEqual(["context"]);
  expect(at("local", "down", "--name", "").namesOf).toEqual(["localCluster"]);
  expect(at("sandbox", "create", "--name", "").namesOf).toEqual([]);
});

it("completes values of options and of arguments", () => {
  expect(at("sandbox", "ls", "--output=").candidates).toContain("yaml");
  expect(at("sandbox", "ls", "--output=").prefix).toBe("--output=");
  expect(at("checkpoint", "create", "a", "--keep-running", "").candidates).toEqual(["true", "false"]);
  expect(at("keys", "rotate", "").candidates).toEqual(["cells", "gateways"]);
  expect(at("local", "logs", "").candidates).toContain("controller");
});

it("leaves the words after the name of a sandbox that runs a command to the shell", () => {
  for (const words of [
    ["a", "--", ""],
    ["a", "--", "ls", "-"],
  ])
    expect(at("sandbox", "exec", ...words)).toMatchObject({ candidates: [], namesOf: [] });
  expect(at("sandboxx", "")).toMatchObject({ candidates: [], namesOf: [] });
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
