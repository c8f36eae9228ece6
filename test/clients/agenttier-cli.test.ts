import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentTierCommand } from "./agenttier-command.ts";
import { ClientWorld } from "./client-world.ts";
import { acquirePython } from "./python-client.ts";

/** The command line of AgentTier over a real local cluster. */
let world: ClientWorld;
let environment: Record<string, string>;
let directory: string;

beforeAll(async () => {
  world = await ClientWorld.shared("agenttier-cli");
  environment = await world.agentTierEnvironment();
  directory = await mkdtemp(join(tmpdir(), "agenttier-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
  await world.close();
});

it("is published in a state in which it does not start, without a change in how it reads its options", async () => {
  const published = join(dirname(await acquirePython("agenttier")), "agenttier");
  const stderr = expect.stringContaining("conflicting option string: --output") as unknown;
  await expect(promisify(execFile)(published, ["version"])).rejects.toMatchObject({ stderr });
  expect(await cli("version")).toBe("agenttier 0.8.1\n");
});

describe("the command line", () => {
  it("creates, waits for, lists and describes a sandbox", async () => {
    expect(await cli("sandbox", "create", "work", "--template", "python", "--timeout", "8h", "--wait")).toBe(
      "created work (status: Running)\n",
    );
    expect(await cli("sandbox", "wait", "work")).toBe("work is running\n");
    const [listed] = JSON.parse(await cli("sandbox", "list", "--status", "Running", "--output", "json")) as object[];
    expect(listed).toMatchObject({ sandbox_id: "work", status: "Running", template_ref: "python" });
    expect(await cli("sandbox", "list", "--namespace", "other")).toContain("(no results)");
    expect(await cli("sandbox", "get", "work")).toContain(`namespace: ${world.namespace}\npod:       work\n`);
  });

  it("runs commands with their exit codes", async () => {
    expect(await cli("sandbox", "exec", "work", "echo", "a b")).toBe("a b\n");
    await expect(cli("sandbox", "exec", "work", "sh", "-c", "exit 3")).rejects.toMatchObject({ code: 3 });
  });

  it("transfers files", async () => {
    const local = join(directory, "local");
    await writeFile(local, "uploaded");
    const files = (...args: string[]) => cli("sandbox", "files", ...args);
    expect(await files("upload", "work", local, "/workspace/a")).toBe("uploaded 8 bytes to /workspace/a\n");
    expect(await files("cat", "work", "/workspace/a")).toBe("uploaded");
    expect(await files("write", "work", "/workspace/b", "--data", "written")).toContain("wrote");
    expect(await files("ls", "work", "--path", "/workspace")).toMatch(/^a +file +8 /m);
    await files("download", "work", "/workspace/b", join(directory, "b"));
    expect(await readFile(join(directory, "b"), "utf8")).toBe("written");
    expect(await files("archive", "work", "-o", join(directory, "zip"))).toContain("archived /workspace");
  });

  it("forwards ports", async () => {
    expect(await cli("sandbox", "ports", "forward", "work", "--port", "8000")).toContain(
      "/sandboxes/work/preview/8000/",
    );
    expect(await cli("sandbox", "ports", "list", "work")).toContain("8000");
    expect(await cli("sandbox", "ports", "remove", "work", "--port", "8000")).toContain("8000");
  });

  it("configures and invokes an agent", async () => {
    const agent = join(directory, "agent.sh");
    await writeFile(agent, "read line; echo got $line $1\n");
    const given = ["--file", `/workspace/agent.sh=${agent}`, "--install", "true"];
    expect(await cli("configure", "work", ...given, "--entrypoint", "sh /workspace/agent.sh")).toContain(
      "install exit 0",
    );
    expect(await cli("invoke", "work", "--input", "x", "--prompt", "y")).toBe("got x --prompt=y\n");
  });

  it("clones, stops, resumes and deletes a sandbox", async () => {
    expect(await cli("sandbox", "clone", "work", "--name", "copy")).toBe(
      "clone copy created from work\npoll: agenttier sandbox get copy\n",
    );
    await cli("sandbox", "wait", "copy");
    expect(await cli("sandbox", "files", "cat", "copy", "/workspace/a")).toBe("uploaded");
    expect(await cli("sandbox", "stop", "copy")).toBe("stopped copy\n");
    expect(await cli("sandbox", "get", "copy")).toContain("status:    Stopped\n");
    expect(await cli("sandbox", "resume", "copy")).toBe("resumed copy\n");
    await cli("sandbox", "wait", "copy");
    for (const name of ["copy", "work"]) expect(await cli("sandbox", "delete", name)).toBe(`deleted ${name}\n`);
    await expect.poll(() => cli("sandbox", "list")).toContain("(no results)");
  });

  it("logs in, and shows the caller and the templates", async () => {
    const { AGENTTIER_API_URL: url = "", AGENTTIER_API_KEY: key = "" } = environment;
    expect(await cli("login", "--api-url", url, "--api-key", key)).toContain(
      `Authenticated as: ${world.namespace}/agent`,
    );
    expect(await cli("whoami")).toBe(`${world.namespace}/agent\n`);
    expect(await cli("template", "list")).toMatch(/^python /m);
    expect(JSON.parse(await cli("template", "get", "python"))).toMatchObject({ name: "python" });
  });

  it("reports errors", async () => {
    const failed = cli("sandbox", "get", "missing");
    await expect(failed).rejects.toMatchObject({
      stderr: expect.stringContaining("missing does not exist") as unknown,
    });
  });
});

async function cli(...args: string[]): Promise<string> {
  return agentTierCommand({ ...environment, AGENTTIER_CONFIG: join(directory, "config.json") }, ...args);
}
