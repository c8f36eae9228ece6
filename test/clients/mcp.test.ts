import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { ClientWorld } from "./client-world.ts";

/** The official client of the Model Context Protocol, over stdio and HTTP, with a real local cluster. */
let world: ClientWorld;
let http: ChildProcessByStdio<null, Readable, null>;
let url: URL;
let key: string;

const program = "bin/ramet.mjs";

beforeAll(async () => {
  world = await ClientWorld.shared("mcp");
  key = await world.createKey(world.namespace, "agent");
  await world.createAccount(world.namespace, "reader", readerRules);
  const args = [program, "mcp", "--http", "--port", "0", "--kubeconfig", world.cluster.directory.kubeconfig];
  http = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(createInterface(http.stdout), "line")) as [string];
  url = new URL(line);
});
afterAll(async () => {
  http.kill();
  await world.close();
});

const readerRules = [{ apiGroups: ["agents.kruise.io"], resources: ["sandboxes"], verbs: ["list"] }];

async function connected(transport: Transport): Promise<Client> {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport);
  return client;
}
const overHttp = (headers: Record<string, string> = { authorization: `Bearer ${key}` }) =>
  // Its types are not made for exactOptionalPropertyTypes.
  connected(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
const overStdio = () => {
  const args = [program, "mcp", "-n", world.namespace, "--kubeconfig", world.cluster.directory.kubeconfig];
  return connected(new StdioClientTransport({ command: process.execPath, args }));
};

const Answer = z.object({
  isError: z.boolean().default(false),
  content: z.array(z.object({ type: z.literal("text"), text: z.string() })),
  structuredContent: z.record(z.string(), z.unknown()).default({}),
});
async function call(client: Client, name: string, args: Record<string, unknown> = {}) {
  const answer = Answer.parse(await client.callTool({ name, arguments: args }));
  return { ...answer, json: answer.structuredContent, text: answer.content.map(({ text }) => text).join("\n") };
}
async function create(client: Client, source = "python"): Promise<string> {
  const { json, isError, text } = await call(client, "create_sandbox", { source });
  expect(isError, text).toBe(false);
  return z.string().parse(json["name"]);
}

describe.each([
  ["stdio", overStdio],
  ["HTTP", () => overHttp()],
])("over %s", (transport, open) => {
  let client: Client;
  beforeAll(async () => {
    client = await open();
  });
  afterAll(() => client.close());

  it("offers its tools, with a description of each", async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name).sort()).toEqual([
      "checkpoint",
      "create_sandbox",
      "create_snapshot",
      "diff",
      "fork",
      "kill_sandbox",
      "list_files",
      "list_sandboxes",
      "list_snapshots",
      "read_file",
      "restore",
      "run_command",
      "wait",
      "write_file",
    ]);
    for (const { description, inputSchema } of tools) {
      expect(description).toMatch(/\.$/);
      expect(inputSchema.type).toBe("object");
    }
    expect(client.getServerVersion()).toMatchObject({ name: "ramet" });
  });

  it("creates a sandbox, runs commands, reads and writes files, and deletes it", async () => {
    const sandbox = await create(client);
    const ran = await call(client, "run_command", {
      sandbox,
      command: 'echo "$A"; echo no >&2; exit 3',
      environment: { A: "hello" },
    });
    expect(ran.json).toEqual({ exitCode: 3, stdout: "hello\n", stderr: "no\n" });
    expect(ran.isError).toBe(false);
    expect(ran.text).toContain("exit code 3");
    await call(client, "write_file", { sandbox, path: "/data/ä.txt", content: "äöü" });
    expect((await call(client, "read_file", { sandbox, path: "/data/ä.txt" })).text).toBe("äöü");
    const part = await call(client, "read_file", { sandbox, path: "/data/ä.txt", limit: 5 });
    expect(part.json).toEqual({ content: "äö", encoding: "utf-8", bytes: 4, nextOffset: 4 });
    await call(client, "write_file", { sandbox, path: "/data/b", content: "/wAB", encoding: "base64" });
    expect((await call(client, "read_file", { sandbox, path: "/data/b" })).json).toMatchObject({ content: "/wAB" });
    const { json } = await call(client, "list_files", { sandbox, path: "/data" });
    expect(json["entries"]).toEqual([
      { path: "/data/b", type: "file", size: 3 },
      { path: "/data/ä.txt", type: "file", size: 6 },
    ]);
    const listed = await call(client, "list_sandboxes");
    expect(listed.json["sandboxes"]).toContainEqual(
      expect.objectContaining({ name: sandbox, state: "running", source: "python" }),
    );
    expect((await call(client, "kill_sandbox", { sandbox })).json).toEqual({ deleted: sandbox });
    const gone = await call(client, "kill_sandbox", { sandbox });
    expect(gone.isError).toBe(true);
    expect(gone.json["error"]).toMatchObject({ code: "NotFound" });
  });

  it("takes a snapshot, forks, and rolls back, with memory", async () => {
    const sandbox = await create(client);
    const run = async (command: string, of = sandbox) =>
      (await call(client, "run_command", { sandbox: of, command })).text;
    await run("sleep 1000 & echo $! > /pid; echo 1 > /state");
    const { json } = await call(client, "create_snapshot", { sandbox });
    await run("echo 2 > /state; kill $(cat /pid)");
    const forks = await call(client, "fork", { sandbox, count: 2 });
    expect(forks.json["clones"]).toHaveLength(2);
    for (const { name } of forks.json["clones"] as { name: string }[]) {
      expect(await run("cat /state", name)).toBe("2\n");
      await call(client, "kill_sandbox", { sandbox: name });
    }
    const back = await call(client, "restore", { sandbox, snapshot: json["snapshot"] });
    expect(back.isError, back.text).toBe(false);
    expect(await run("cat /state; kill -0 $(cat /pid) && echo alive")).toBe("1\nalive\n");
    const clone = await create(client, json["snapshot"] as string);
    expect(await run("cat /state", clone)).toBe("1\n");
    const { json: all } = await call(client, "list_snapshots");
    expect(all["snapshots"]).toContainEqual(expect.objectContaining({ snapshot: json["snapshot"] }));
    for (const each of [sandbox, clone]) await call(client, "kill_sandbox", { sandbox: each });
  });

  it("captures without a wait, waits for the checkpoint, and restores it", async () => {
    // Checkpoints outlive their sandboxes.
    const name = `before ${transport}`;
    const sandbox = await create(client);
    const { json } = await call(client, "checkpoint", { sandbox, name });
    const done = await call(client, "wait", { checkpoint: json["checkpoint"] });
    expect(done.json).toMatchObject({ checkpoint: json["checkpoint"], name, phase: "Succeeded" });
    await call(client, "write_file", { sandbox, path: "/later", content: "lost" });
    const back = await call(client, "restore", { sandbox, snapshot: json["checkpoint"] });
    expect(back.isError, back.text).toBe(false);
    expect((await call(client, "read_file", { sandbox, path: "/later" })).isError).toBe(true);
    await call(client, "write_file", { sandbox, path: "/later", content: "lost" });
    expect((await call(client, "wait", { checkpoint: name })).json).toEqual(done.json);
    const named = await call(client, "restore", { sandbox, snapshot: name });
    expect(named.isError, named.text).toBe(false);
    expect((await call(client, "read_file", { sandbox, path: "/later" })).isError).toBe(true);
    const other = await create(client);
    const same = await call(client, "checkpoint", { sandbox: other, name });
    const several = await call(client, "wait", { checkpoint: name });
    expect(several.json["error"]).toMatchObject({ code: "InvalidArgument" });
    for (const id of [json["checkpoint"], same.json["checkpoint"]]) expect(several.text).toContain(id);
    const own = await call(client, "wait", { checkpoint: name, sandbox: other });
    expect(own.json).toMatchObject({ checkpoint: same.json["checkpoint"] });
    await call(client, "kill_sandbox", { sandbox: other });
    const again = await call(client, "checkpoint", { sandbox, name });
    expect(again.json["error"]).toMatchObject({ code: "AlreadyExists" });
    const diff = await call(client, "diff", { from: "none@1", to: "none@2" });
    expect(diff.json["error"]).toMatchObject({ code: "NotFound" });
    await call(client, "kill_sandbox", { sandbox });
  });

  it("limits the output of a command and its time", async () => {
    const sandbox = await create(client);
    const long = await call(client, "run_command", { sandbox, command: "head -c 10000000 /dev/zero | tr '\\0' x" });
    expect(long.text.length).toBeLessThan(70_000);
    expect(long.text).toContain("bytes are left out]");
    const slow = await call(client, "run_command", { sandbox, command: "echo started; sleep 600", timeout_seconds: 1 });
    expect(slow.isError).toBe(true);
    expect(slow.json["error"]).toMatchObject({ code: "Timeout" });
    expect(slow.text).toContain("started");
    // A killed process is shown until its parent has taken its exit code.
    const left = async () =>
      (await call(client, "run_command", { sandbox, command: "pgrep -fx 'sleep 600' || echo none" })).text;
    await expect.poll(left).toContain("none");
    await call(client, "kill_sandbox", { sandbox });
  });

  it("reports errors as results with a code and a hint", async () => {
    const unknown = await call(client, "create_sandbox", { source: "nothing" });
    expect(unknown.json["error"]).toMatchObject({ code: "NotFound", hint: expect.any(String) as string });
    expect(unknown.text).toContain("[NotFound]");
    const invalid = await call(client, "run_command", { sandbox: "a" });
    expect(invalid.isError).toBe(true);
    expect((await call(client, "list_files", { sandbox: "../a", path: "/" })).json["error"]).toMatchObject({
      code: "NotFound",
    });
  });
});

it("kills a command whose call is canceled", async () => {
  const client = await overStdio();
  const sandbox = await create(client);
  const canceled = new AbortController();
  const args = { sandbox, command: "echo $$ > /pid; sleep 600" };
  const running = client.callTool({ name: "run_command", arguments: args }, undefined, { signal: canceled.signal });
  const state = async () =>
    (await call(client, "run_command", { sandbox, command: "kill -0 $(cat /pid) && echo runs || echo none" })).text;
  await expect.poll(state).toContain("runs");
  canceled.abort();
  await expect(running).rejects.toThrow();
  await expect.poll(state).toContain("none");
  await call(client, "kill_sandbox", { sandbox });
  await client.close();
});

describe("over HTTP only", () => {
  const listing = { jsonrpc: "2.0", id: 1, method: "tools/list" };
  const post = (headers: Record<string, string>, path = url.pathname, message: object = listing) =>
    fetch(new URL(path, url), {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
      body: JSON.stringify(message),
    });

  it("accepts one message at a time, because each counts in the limits of the key", async () => {
    const authorization = `Bearer ${key}`;
    const refused = await post({ authorization }, url.pathname, [listing, listing]);
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining("Send one at a time")]);
  });

  it("refuses clients without a valid key, and other servers' names", async () => {
    expect((await post({})).status).toBe(401);
    const refused = await post({ authorization: "Bearer e2b_00" });
    expect(refused.status).toBe(401);
    expect(await refused.text()).toContain("as a bearer token");
    const authorization = `Bearer ${key}`;
    expect((await post({ authorization, origin: "https://attacker.example" })).status).toBe(403);
    expect((await post({ authorization, origin: "http://localhost:3000" })).status).toBe(200);
    expect((await fetch(url, { headers: { authorization } })).status).toBe(405);
    expect((await post({ authorization }, "/other")).status).toBe(404);
  });

  it("checks the rights of the key's service account, and its limits", async () => {
    const reader = await overHttp({ "x-api-key": await keyOf("reader") });
    expect((await call(reader, "list_sandboxes")).isError).toBe(false);
    const refused = await call(reader, "create_sandbox", { source: "python" });
    expect(refused.json["error"]).toMatchObject({ code: "Forbidden" });
    await reader.close();
    const limited = await overHttp({
      authorization: `Bearer ${await world.createKey(world.namespace, "one", { sandboxes: 1 })}`,
    });
    const sandbox = await create(limited);
    expect((await call(limited, "create_sandbox", { source: "python" })).json["error"]).toMatchObject({
      code: "QuotaExceeded",
    });
    const fork = await call(limited, "fork", { sandbox });
    expect(fork.json["error"]).toMatchObject({ code: "QuotaExceeded" });
    await call(limited, "kill_sandbox", { sandbox });
    await limited.close();
  });

  it("refuses another snapshot once those of the key are too large", async () => {
    const small = await overHttp({
      authorization: `Bearer ${await world.createKey(world.namespace, "small", { snapshotBytes: "1" })}`,
    });
    const sandbox = await create(small);
    expect((await call(small, "create_snapshot", { sandbox })).isError).toBe(false);
    const refused = async () => (await call(small, "create_snapshot", { sandbox })).json["error"];
    await expect.poll(refused).toMatchObject({ code: "QuotaExceeded" });
    await call(small, "kill_sandbox", { sandbox });
    await small.close();
  });

  it("does not know the sandboxes of another namespace", async () => {
    const own = await overHttp();
    const sandbox = await create(own);
    const listed = await call(own, "list_sandboxes");
    const { id } = (listed.json["sandboxes"] as { name: string; id: string }[]).find(({ name }) => name === sandbox)!;
    const other = await overHttp({ authorization: `Bearer ${await world.createKey("mcp-other", "agent")}` });
    for (const text of [sandbox, id, `${world.namespace}--${sandbox}`]) {
      for (const [tool, args] of [
        ["run_command", { command: "true" }],
        ["fork", {}],
        ["create_snapshot", {}],
        ["kill_sandbox", {}],
      ] as const) {
        const refused = await call(other, tool, { sandbox: text, ...args });
        expect(refused.json["error"]).toMatchObject({ code: "NotFound" });
      }
    }
    await call(own, "kill_sandbox", { sandbox });
    await Promise.all([own.close(), other.close()]);
  });
});

/** A key of an account whose rights the test has set. */
async function keyOf(name: string): Promise<string> {
  const text = await world.createKey(world.namespace, name);
  await world.createAccount(world.namespace, name, readerRules);
  return text;
}
