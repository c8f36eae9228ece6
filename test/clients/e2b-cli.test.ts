import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { ClientWorld } from "./client-world.ts";

/** The command line of E2B, unmodified, over a real local cluster. The environment has its key and addresses. */
let world: ClientWorld;
let environment: Record<string, string>;
let directory: string;
let sandbox: string;
const command = ["sh", "-c", "echo started; exec sleep infinity"];

beforeAll(async () => {
  world = await ClientWorld.shared("e2b-cli");
  const template = { spec: { containers: [{ name: "main", image: "python", command }] } };
  const metadata = { namespace: world.namespace, name: "speaks" };
  const { apiVersion, kind } = sandboxTemplateKind;
  await world.client.of(sandboxTemplateKind).create({ apiVersion, kind, metadata, spec: { template } });
  directory = await mkdtemp(join(tmpdir(), "e2b-cli-"));
  environment = { ...(await world.environment()), HOME: directory, NO_UPDATE_NOTIFIER: "1" };
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
  await world.close();
});

describe("the command line", () => {
  it("creates, lists and describes a sandbox", async () => {
    sandbox = (await cli("sandbox", "create", "speaks", "--detach", "--timeout", "600")).trim();
    expect(sandbox).toMatch(/^[0-9a-f]{32}$/);
    const listed = JSON.parse(await cli("sandbox", "list", "--format", "json")) as object[];
    expect(listed).toMatchObject([{ sandboxId: sandbox, templateId: "speaks", state: "running" }]);
    expect(await cli("sandbox", "list")).toContain(sandbox);
    expect(JSON.parse(await cli("sandbox", "info", sandbox, "--format", "json"))).toMatchObject({ sandboxId: sandbox });
  });

  it("runs commands with their input, output and exit code", async () => {
    const ran = await cli("sandbox", "exec", "-e", "A=b", "-c", "/tmp", sandbox, "sh", "-c", "echo $A; pwd");
    expect(ran).toBe("b\n/tmp\n");
    const failed = await cli("sandbox", "exec", sandbox, "sh", "-c", "echo why >&2; exit 3").catch(
      (error: unknown) => error,
    );
    expect(failed).toMatchObject({ code: 3, stderr: expect.stringContaining("why\n") as unknown });
    expect(await input("typed", "sandbox", "exec", sandbox, "cat")).toBe("typed");
    // A command that reads nothing ends before its input does.
    expect(await input("x".repeat(1000), "sandbox", "exec", sandbox, "true")).toBe("");
  });

  it("opens a terminal", async () => {
    const typed = await terminal("echo a$((1+1))b; exit 0\n", "sandbox", "connect", sandbox);
    expect(typed).toContain("a2b");
  });

  it("shows metrics and logs", async () => {
    const metrics = await cli("sandbox", "metrics", sandbox, "--format", "json");
    expect(JSON.parse(metrics)).toMatchObject({ cpuCount: expect.any(Number) as unknown });
    expect(await cli("sandbox", "logs", sandbox)).toContain("started");
  });

  it("pauses, resumes, snapshots and kills it", async () => {
    const created = await cli("sandbox", "snapshot", "create", sandbox, "--name", "kept");
    expect(created).toContain("kept");
    expect(await cli("sandbox", "snapshot", "list")).toContain("kept");
    expect(await cli("sandbox", "pause", sandbox)).toContain("has been paused");
    expect(await cli("sandbox", "resume", sandbox)).toContain(sandbox);
    expect(await cli("sandbox", "kill", sandbox)).toContain("has been killed");
    expect(await cli("sandbox", "list")).toContain("No sandboxes found");
    expect(await cli("sandbox", "info", sandbox).catch(String)).toContain("wasn't found");
    expect(await cli("sandbox", "snapshot", "delete", "kept")).toContain("has been deleted");
  });

  it("builds a Dockerfile as a template, lists and deletes it", async () => {
    await writeFile(join(directory, "Dockerfile"), "FROM python\nRUN echo built > /built\n");
    await cli("template", "create", "from-file", "--path", directory);
    const [listed] = JSON.parse(await cli("template", "list", "--format", "json")) as object[];
    expect(listed).toMatchObject({ templateID: "from-file", buildStatus: "ready" });
    const built = (await cli("sandbox", "create", "from-file", "--detach")).trim();
    expect(await cli("sandbox", "exec", built, "cat", "/built")).toBe("built\n");
    await cli("sandbox", "kill", "--all");
    await cli("template", "delete", "from-file", "--yes");
    expect(await cli("template", "list")).toContain("No templates found");
  });
});

const require = createRequire(import.meta.url);
const program = require.resolve("@e2b/cli/dist/index.js");

async function cli(...args: string[]): Promise<string> {
  return input("", ...args);
}

async function input(text: string, ...args: string[]): Promise<string> {
  const running = promisify(execFile)(process.execPath, [program, ...args], {
    env: { PATH: process.env["PATH"], ...environment },
    timeout: 60_000,
  });
  running.child.stdin?.end(text);
  return (await running).stdout;
}

/** Runs it in a terminal, in which a user types. */
async function terminal(text: string, ...args: string[]): Promise<string> {
  const typed = [process.execPath, program, ...args].join(" ");
  const running = promisify(execFile)("script", ["--quiet", "--return", "--command", typed, "/dev/null"], {
    env: { PATH: process.env["PATH"], TERM: "xterm", ...environment },
    timeout: 60_000,
  });
  running.child.stdin?.write(text);
  return (await running).stdout;
}
