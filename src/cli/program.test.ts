import { readFile } from "node:fs/promises";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { memoryIo } from "../../test/setup/memory-io.ts";
import { buildProgram, runProgram } from "./program.ts";

async function run(...args: string[]) {
  const io = memoryIo({ environment: { HOME: "/nowhere", XDG_DATA_HOME: "/nowhere" } });
  const exitCode = await runProgram(io, args);
  return { exitCode, stdout: io.written("stdout"), stderr: io.written("stderr") };
}

function commandPaths(command: Command, path: string): string[] {
  const visible = command.createHelp().visibleCommands(command);
  return visible.flatMap((child) => {
    if (child.name() === "help") return [];
    const own = `${path} ${child.name()}`;
    return child.commands.length === 0 ? [own] : commandPaths(child, own);
  });
}

const paths = commandPaths(
  buildProgram(memoryIo(), () => () => Promise.resolve()),
  "ramet",
);

describe("ramet", () => {
  it("prints help with examples", async () => {
    const { exitCode, stdout } = await run("--help");
    expect(exitCode).toBe(0);
    expect(stdout).toContain("ramet local up");
    expect(stdout).toContain("Exit codes:");
  });

  it("prints its version without loading the dependencies of commands", async () => {
    const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")) as {
      version: string;
    };
    expect(await run("--version")).toEqual({ exitCode: 0, stdout: `${version}\n`, stderr: "" });
    expect(await run("-V")).toMatchObject({ exitCode: 0, stdout: `${version}\n` });
    const hooks = `import { registerHooks } from "node:module";
      registerHooks({ resolve(name, context, next) {
        if (["zod", "undici", "pino", "yaml", "jose"].includes(name)) throw new Error(name + " is loaded");
        return next(name, context);
      } });`;
    const main = fileURLToPath(new URL("main.ts", import.meta.url));
    const args = ["--no-warnings", "--import", `data:text/javascript,${encodeURIComponent(hooks)}`, main, "--version"];
    expect((await promisify(execFile)(process.execPath, args)).stdout).toBe(`${version}\n`);
  });

  it.each(paths.filter((path) => path !== "ramet snapshot logs" && !path.endsWith(" exec")))(
    "%s accepts --version without showing it in its help",
    async (path) => {
      const command = path.split(" ").slice(1);
      const [group = ""] = command;
      const version = (await run("--version")).stdout;
      expect(await run(...command, "--version")).toEqual({ exitCode: 0, stdout: version, stderr: "" });
      expect(await run(group, "-V")).toMatchObject({ exitCode: 0, stdout: version });
      expect((await run(...command, "--help")).stdout).not.toContain("--version");
    },
  );

  it("leaves --version to commands that define it and to commands that run in a sandbox", async () => {
    expect((await run("snapshot", "logs", "a", "--version", "last")).stderr).toContain("--version");
    const { exitCode, stderr, stdout } = await run("sandbox", "exec", "a", "python3", "--version");
    expect(stderr).toContain("Unknown option '--version'");
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(await run("cell", "exec", "python3", "--version")).toMatchObject({ exitCode: 2, stdout: "" });
  });

  it.each(paths)("%s has help", async (path) => {
    const { exitCode, stdout } = await run(...path.split(" ").slice(1), "--help");
    expect(exitCode).toBe(0);
    expect(stdout).toContain(`Usage: ${path}`);
  });

  it.each(paths)("%s has a description that starts with a verb, and examples of its arguments", async (path) => {
    const { stdout } = await run(...path.split(" ").slice(1), "--help");
    const [, , description = ""] = stdout.split("\n");
    expect(description).toMatch(/^[A-Z][a-z]+ /);
    if (stdout.includes("\nArguments:\n"))
      expect(stdout).toMatch(new RegExp(`\nExamples:\n(.*\n)*? .*${path.replace(/ take$/, "")} `));
  });

  it("lists every command in docs/reference/cli.md", async () => {
    const page = await readFile(new URL("../../docs/reference/cli.md", import.meta.url), "utf8");
    expect(paths.filter((path) => !page.includes(path))).toEqual([]);
  });

  it("suggests a similar command", async () => {
    const { exitCode, stderr } = await run("sandbox", "creat");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("Unknown command 'creat'");
    expect(stderr).toContain("Did you mean create?");
  });

  it.each([
    [["sandbox", "get"], "Missing required argument"],
    [["sandbox", "ls", "-o", "xml"], 'Invalid --output "xml": it must be one of table, json, yaml, name'],
    [["sandbox", "create", "--image", "x", "--timeout", "soon"], "--timeout is not a duration such as 90s or 2m"],
    [["sandbox", "create", "--image", "x", "--env", "A"], "write it as NAME=VALUE"],
    [["sandbox", "create"], "Cannot create a sandbox without a source"],
    [["sandbox", "create", "--image", "x", "--template", "y"], "Cannot use both --template and --image"],
    [["sandbox", "create", "--image", "x", "--name", "Upper"], 'Invalid --name, not a DNS label: "Upper"'],
    [["checkpoint", "create", "a", "--contents", "memory"], 'Invalid --contents: "memory"'],
    [["checkpoint", "create", "a", "--contents", "ip,filesystem"], 'Invalid --contents: "ip,filesystem"'],
    [["checkpoint", "create", "a", "--ttl", "1 week"], 'Invalid --ttl: "1 week"'],
    [["checkpoint", "create", "a", "--keep-running=perhaps"], "it must be true or false"],
    [["get", "pods"], "it must be sandbox, checkpoint, template, set, claim, snapshot or key"],
    [["sandbox", "cp", "a", "b"], "one of the two paths must be in a sandbox"],
    [["manifests", "--image", "a:1"], "they need a cell image"],
    [["manifests", "--image", "A", "--cell-image", "b:1"], '--image is not an image reference: "A"'],
    [
      ["manifests", "--image", "a:1", "--cell-image", "b:1", "--store-directory", "data"],
      "--store-directory is not an absolute path",
    ],
    [["controller", "--store-directory", "/a"], "they need a cell image"],
    [["controller", "--cell-image", "b:1"], "need exactly one store"],
    [["controller", "--cell-image", "b:1", "--store", "s3://a12", "--store-directory", "/a"], "need exactly one store"],
    [["controller", "--cell-image", "b:1", "--store", "/a"], "begins with s3://"],
    [["controller", "--cell-image", "b:1", "--engine-check-interval", "500ms"], "it must be at least 1s"],
    [["gateway", "--port", "65536"], "it must be a port from 0 to 65535"],
    [["gateway", "--shutdown-delay", "-1"], "it must be a whole number"],
    [["manifests", "--image", "a:1", "--cell-image", "b:1", "--gateway-replicas", "two"], "it must be a whole number"],
  ])("rejects %j as wrong usage", async (args, message) => {
    const { exitCode, stderr, stdout } = await run(...args);
    expect(stderr).toContain(message);
    expect(exitCode).toBe(2);
    expect(stdout).toBe("");
  });

  it("prints what to do when no cluster is found", async () => {
    const { exitCode, stderr } = await run("sandbox", "ls");
    expect(exitCode).toBe(3);
    expect(stderr).toMatch(/^error: Cannot find a cluster.*\nRun `ramet local up`.*\n\[NotFound\]\n$/);
  });

  it("accepts a timeout in seconds without a unit", async () => {
    const { exitCode, stderr } = await run("sandbox", "create", "--image", "x", "--timeout", "5");
    expect(stderr).toContain("Cannot find a cluster");
    expect(exitCode).toBe(3);
  });

  it("reports wrong usage with what to do and a code, also in JSON", async () => {
    expect((await run("sandbox", "get")).stderr).toBe(
      "error: Missing required argument 'name'\nSee: ramet sandbox get --help\n[InvalidArgument]\n",
    );
    expect((await run("sandbox", "exec", "a", "ls", "-la")).stderr).toContain(
      "Put -- before a command that has options: ramet sandbox exec <name> -- <command> [args...]",
    );
    const { exitCode, stderr } = await run("sandbox", "ls", "--namspace", "a", "--output=json");
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: "InvalidArgument" } });
    expect(exitCode).toBe(2);
  });

  it("prints errors in JSON when the output is JSON", async () => {
    const { stderr } = await run("sandbox", "ls", "-o", "json");
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: "NotFound", retryable: false } });
  });
});
