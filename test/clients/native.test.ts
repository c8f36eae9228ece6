import { execFile } from "node:child_process";
import { createServer, request as httpRequest } from "node:http";
import { existsSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import {
  type Checkpoint,
  CommandExitError,
  type ConnectionOptions,
  RametError,
  Sandbox,
  type SandboxInfo,
  snapshots,
} from "ramet/client";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { clusterTemplatePrefix } from "../../src/api/names/system-names.ts";
import { rametApiVersion } from "../../src/api/schema/kind.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { ClientWorld } from "./client-world.ts";

/** Ramet's own client, as it is built, over a real local cluster. The environment configures it. */
let world: ClientWorld;
let options: Required<Pick<ConnectionOptions, "apiKey" | "apiUrl" | "sandboxUrl">>;

beforeAll(async () => {
  world = await ClientWorld.shared("native");
  options = await world.connection();
  const names = { apiKey: "RAMET_API_KEY", apiUrl: "RAMET_API_URL", sandboxUrl: "RAMET_SANDBOX_URL" } as const;
  for (const [option, name] of Object.entries(names)) vi.stubEnv(name, options[option as keyof typeof names]);
  vi.stubEnv("RAMET_DOMAIN", "ramet.localhost");
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await world.close();
});

const rejected = async (work: Promise<unknown>): Promise<RametError> => {
  const error: unknown = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(RametError);
  return error as RametError;
};

/**
 * Every code block of the page "Checkpoints" of seed 004, in the order of the page, word for word but for line breaks and `console`,
 * whose output is compared. The blocks use a `sandbox` that the page does not create.
 */
describe("the page of seed 004", () => {
  let sandbox: Sandbox;
  let lines: unknown[];
  const console = { log: (line: unknown) => lines.push(line) };
  beforeAll(async () => {
    sandbox = await Sandbox.create({ template: "python" });
  });
  afterAll(() => sandbox.kill());

  it("creates checkpoints", async () => {
    lines = [];
    const cp = await sandbox.checkpoint.create();
    console.log(cp.checkpoint_id); // "abc123..."
    console.log(cp.size_bytes); // 134217728
    console.log(cp.copy_duration_ms); // how long the checkpoint took
    console.log(cp.ok); // true on success
    // Both are null until it is captured.
    expect(lines).toEqual([expect.any(String), null, null, true]);
    const done = await sandbox.checkpoint.wait(cp);
    expect(done).toMatchObject({ checkpoint_id: cp.checkpoint_id, ok: true, state: "succeeded" });
    expect(done.size_bytes).toBeGreaterThan(0);
    expect(done.copy_duration_ms).toBeGreaterThanOrEqual(0);
  });

  it("names checkpoints", async () => {
    const cp = await sandbox.checkpoint.create({ name: "after-training" });
    expect(cp.name).toBe("after-training");
    await sandbox.checkpoint.wait({ checkpoint_id: cp.checkpoint_id });
  });

  it("lists checkpoints", async () => {
    lines = [];
    const { checkpoints } = await sandbox.checkpoint.list();
    for (const cp of checkpoints) {
      console.log(`${cp.name ?? cp.id}: ${cp.size_human} (${cp.created_at})`);
    }
    const line = (name: string) =>
      expect.stringMatching(new RegExp(`^${name}: [\\d.]+[KM]iB \\(20\\d\\d-.*Z\\)$`)) as unknown;
    expect(lines).toEqual([line("after-training"), line("[-a-z0-9]+")]);
  });

  it("waits for a checkpoint, from which sandboxes are created", async () => {
    await sandbox.files.write("/state", "big");
    const cp = await sandbox.checkpoint.create({ name: "big-state" });
    await sandbox.checkpoint.wait({ checkpoint_id: cp.checkpoint_id });
    // Now safe to fork — checkpoint is fully flushed
    const child = await Sandbox.create({ checkpoint: cp.checkpoint_id });
    expect(await child.files.read("/state")).toBe("big");
    await child.kill();
  });

  it("deletes checkpoints", async () => {
    const cp = await sandbox.checkpoint.create();
    await sandbox.checkpoint.wait({ checkpoint_id: cp.checkpoint_id });
    await sandbox.checkpoint.delete(cp.checkpoint_id);
    const { checkpoints } = await sandbox.checkpoint.list();
    expect(checkpoints.map(({ id }) => id)).not.toContain(cp.checkpoint_id);
    expect(await sandbox.checkpoint.delete(cp.checkpoint_id)).toBe(false);
  });

  it("keeps the sandbox running, which a restore takes back in place", async () => {
    const counter = await sandbox.commands.run("i=0; while true; do echo $((i+=1)) > /tmp/count; sleep 0.05; done", {
      background: true,
      timeoutMs: 0,
    });
    const cp = await sandbox.checkpoint.create();
    const count = async () => Number(await sandbox.files.read("/tmp/count"));
    await expect.poll(count).toBeGreaterThan(1);
    await sandbox.checkpoint.wait({ checkpoint_id: cp.checkpoint_id });
    const captured = await count();
    await expect.poll(count).toBeGreaterThan(captured);
    await sandbox.files.write("/later", "lost");
    await sandbox.commands.kill(counter.pid);
    const restored = await sandbox.checkpoint.restore(cp.checkpoint_id);
    expect(restored).toMatchObject({
      ok: true,
      checkpoint_id: cp.checkpoint_id,
      started: expect.anything() as unknown,
    });
    expect(restored.started?.names).toContain("sleep");
    expect(restored.stopped?.processes).toBeGreaterThan(0);
    expect(await sandbox.files.exists("/later")).toBe(false);
    // The loop that was killed runs again.
    const now = await count();
    await expect.poll(count).toBeGreaterThan(now);
  });
});

describe("a checkpoint", () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    sandbox = await Sandbox.create({ template: "python" });
  });
  afterAll(() => sandbox.kill());

  it("has a name that no other one of its sandbox has, and the error names that one", async () => {
    const first = await sandbox.checkpoint.create({ name: "once ä" });
    const error = await rejected(sandbox.checkpoint.create({ name: "once ä" }));
    expect(error).toMatchObject({ code: "AlreadyExists", status: 409, hint: expect.any(String) as unknown });
    expect(error.message).toContain(first.checkpoint_id);
    await sandbox.checkpoint.wait({ checkpoint_id: "once ä" });
    await sandbox.checkpoint.delete("once ä");
    const second = await sandbox.checkpoint.create({ name: "once ä" });
    expect(second.checkpoint_id).not.toBe(first.checkpoint_id);
    await sandbox.checkpoint.wait(second);
  });

  it("reports its states while it is awaited, also over a connection that breaks", async () => {
    const seen: string[] = [];
    const onProgress = ({ state }: Checkpoint) => void seen.push(state);
    const proxy = await openProxy(options.apiUrl);
    const through = await Sandbox.connect(sandbox.sandboxId, { ...options, apiUrl: proxy.url });
    const cp = await through.checkpoint.create();
    proxy.breakNext("/wait");
    const done = await through.checkpoint.wait({ checkpoint_id: cp.checkpoint_id, onProgress });
    expect(proxy.broken()).toBe(1);
    expect(done.state).toBe("succeeded");
    expect(seen.at(-1)).toBe("succeeded");
    proxy.close();
  });

  it("gives up to wait after a time, and is captured nevertheless", async () => {
    const cp = await sandbox.checkpoint.create();
    const error = await rejected(sandbox.checkpoint.wait({ checkpoint_id: cp.checkpoint_id, timeoutMs: 1 }));
    expect(error.code).toBe("Timeout");
    expect((await sandbox.checkpoint.wait(cp)).ok).toBe(true);
  });

  it("has the contents that were requested, and cannot be cloned before", async () => {
    const cp = await sandbox.checkpoint.create({ contents: ["filesystem"] });
    const error = await rejected(Sandbox.create({ checkpoint: cp.checkpoint_id }));
    expect(error).toMatchObject({ code: "CheckpointNotReady", status: 409, retryable: true });
    expect((await sandbox.checkpoint.wait(cp)).contents).toEqual(["filesystem"]);
  });

  it("is found below its own sandbox only, also after that was deleted", async () => {
    const other = await Sandbox.create({ template: "python" });
    const cp = await other.checkpoint.create({ name: "of other" });
    await other.checkpoint.wait(cp);
    expect(await sandbox.checkpoint.delete(cp.id)).toBe(false);
    expect(await rejected(sandbox.checkpoint.wait(cp))).toMatchObject({ code: "NotFound", status: 404 });
    await other.kill();
    expect((await other.checkpoint.wait({ checkpoint_id: "of other" })).id).toBe(cp.id);
    expect(await other.checkpoint.delete(cp.id)).toBe(true);
  });

  it("is captured of a paused sandbox, too", async () => {
    const paused = await Sandbox.create({ template: "python" });
    await paused.files.write("/kept", "yes");
    expect((await paused.pause()).state).toBe("paused");
    const cp = await paused.checkpoint.create();
    await paused.checkpoint.wait(cp);
    await paused.kill();
    const child = await Sandbox.create({ checkpoint: cp.id });
    expect(await child.files.read("/kept")).toBe("yes");
    await child.kill();
  });
});

describe("a sandbox", () => {
  it("is created with progress, listed, paused, resumed and deleted", async () => {
    const states: string[] = [];
    const sandbox = await Sandbox.create({
      template: "python",
      metadata: { user: "a" },
      envs: { GREETING: "hello" },
      lifecycle: { onTimeout: "pause" },
      onProgress: ({ state }: SandboxInfo) => void states.push(state),
    });
    expect(states.at(-1)).toBe("running");
    expect((await sandbox.commands.run("echo $GREETING")).stdout).toBe("hello\n");
    const { sandboxes } = await Sandbox.list();
    const info = sandboxes.find(({ sandbox_id }) => sandbox_id === sandbox.sandboxId);
    expect(info).toMatchObject({ name: sandbox.name, metadata: { user: "a" }, source: "python", on_timeout: "pause" });
    const before = Date.parse((await sandbox.getInfo()).ends_at ?? "");
    await sandbox.setTimeout(3_600_000);
    expect(Date.parse((await sandbox.getInfo()).ends_at ?? "")).toBeGreaterThan(before);
    await sandbox.pause();
    expect((await sandbox.pause()).state).toBe("paused");
    expect(await sandbox.isRunning()).toBe(false);
    await sandbox.resume();
    const same = await Sandbox.connect(sandbox.name);
    expect([await same.isRunning(), same.sandboxId]).toEqual([true, sandbox.sandboxId]);
    expect(sandbox.getHost(8000)).toBe(`8000-${sandbox.sandboxId}.ramet.localhost`);
    expect([await sandbox.kill(), await sandbox.delete()]).toEqual([true, false]);
  });

  it("runs commands and reads and writes files as with E2B's client", async () => {
    const { commands, files, ...sandbox } = await Sandbox.create({ template: "python" });
    const output: string[] = [];
    const ran = await commands.run("echo out; echo ärr >&2; pwd", {
      cwd: "/tmp",
      onStdout: (text) => void output.push(text),
    });
    expect(ran).toEqual({ exitCode: 0, stdout: "out\n/tmp\n", stderr: "ärr\n" });
    expect(output.join("")).toBe("out\n/tmp\n");
    const failed = await rejected(commands.run("echo why >&2; exit 3"));
    expect(failed).toBeInstanceOf(CommandExitError);
    expect(failed).toMatchObject({ exitCode: 3, stderr: "why\n", code: "CommandFailed" });
    expect(await rejected(commands.run("sleep 60", { timeoutMs: 300 }))).toMatchObject({ code: "Timeout" });
    // It prints nothing for longer than a connection may be silent.
    expect((await commands.run("sleep 3; echo awake", { requestTimeoutMs: 2_000 })).stdout).toBe("awake\n");
    const cat = await commands.run("cat", { background: true, stdin: true });
    await cat.sendStdin("typed");
    await commands.closeStdin(cat.pid);
    expect((await cat.wait()).stdout).toBe("typed");
    const large = await commands.run("head -c 3000000 /dev/zero | tr '\\0' x");
    expect(large.stdout).toHaveLength(3_000_000);

    expect(await files.makeDir("/data")).toBe(true);
    expect(await files.makeDir("/data")).toBe(false);
    expect(await files.write("/data/ä", "äöü")).toMatchObject({ path: "/data/ä", type: "file" });
    await files.write("/data/bytes", new Uint8Array([255, 0, 1]).buffer);
    const stream = new Blob(["stre", "am"]).stream() as ReadableStream<Uint8Array>;
    await files.write("/data/stream", stream);
    expect(await files.read("/data/ä")).toBe("äöü");
    expect(await files.read("/data/bytes", { format: "bytes" })).toEqual(new Uint8Array([255, 0, 1]));
    expect(await files.read("/data/stream")).toBe("stream");
    await files.rename("/data/stream", "/data/renamed");
    await files.remove("/data/bytes");
    const entries = (await files.list("/data")).map(({ name, type, size }) => ({ name, type, size }));
    expect(entries).toEqual([
      { name: "renamed", type: "file", size: 6 },
      { name: "ä", type: "file", size: 6 },
    ]);
    expect([await files.exists("/data/ä"), await files.exists("/data/none")]).toEqual([true, false]);
    expect(await rejected(files.read("/data/none"))).toMatchObject({ code: "NotFound" });

    const [seen, exits]: [object[], unknown[]] = [[], []];
    const watching = { recursive: true, timeoutMs: 0, onExit: (error?: Error) => void exits.push(error) };
    const watch = await files.watchDir("/data", (event) => void seen.push(event), watching);
    const written = await files.write([
      { path: "/data/one", data: "1" },
      { path: "/data/below/two", data: "2" },
    ]);
    expect(written.map(({ path }) => path)).toEqual(["/data/one", "/data/below/two"]);
    await expect.poll(() => seen).toContainEqual({ name: "one", type: "create" });
    await watch.stop();
    await expect.poll(() => exits).toEqual([undefined]);
    expect(await rejected(files.watchDir("/none", () => undefined))).toMatchObject({ code: "NotFound" });
    await Sandbox.kill(sandbox.sandboxId);
  });

  it("has terminals", async () => {
    const sandbox = await Sandbox.create({ template: "python" });
    let text = "";
    const decoder = new TextDecoder();
    const onData = (data: Uint8Array) => {
      text += decoder.decode(data, { stream: true });
    };
    const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 });
    await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
    await sandbox.pty.sendInput(terminal.pid, "stty size; exit 0\n");
    expect(await terminal.wait()).toMatchObject({ exitCode: 0 });
    expect(text).toContain("30 100");
    await sandbox.kill();
  });

  it("is forked while it runs, with its memory", async () => {
    const sandbox = await Sandbox.create({ template: "python" });
    const sleep = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
    const forks = await sandbox.fork({ count: 2 });
    expect(forks).toHaveLength(2);
    for (const fork of forks) {
      if (fork instanceof RametError) throw fork;
      expect((await fork.commands.list()).map(({ pid }) => pid)).toContain(sleep.pid);
      await fork.kill();
    }
    expect(await sandbox.isRunning()).toBe(true);
    await sandbox.kill();
  });
});

describe("named snapshots", () => {
  it("are listed with their versions, compared, and what sandboxes are created from", async () => {
    const resource = world.client.resource(refOf(namedSnapshotKind));
    const metadata = { namespace: world.namespace, name: "data" };
    const build = async (text: string, version: number) => {
      const spec = {
        from: { template: { name: `${clusterTemplatePrefix}python` } },
        recipe: [{ run: `echo ${text} > /text` }],
      };
      const manifest = { apiVersion: rametApiVersion, kind: "NamedSnapshot", metadata, spec };
      await resource.apply(manifest, { fieldManager: "test", force: true });
      await world.cluster.until(
        refOf(namedSnapshotKind),
        metadata,
        (value) => namedSnapshotKind.object.parse(value),
        (snapshot) => {
          expect(snapshot?.status?.build?.failure).toBe(undefined);
          return snapshot?.status?.version === version;
        },
      );
    };
    await build("one", 1);
    await build("two", 2);
    const { snapshots: all } = await snapshots.list();
    expect(all.map(({ name, version }) => [name, version])).toEqual([["data", 2]]);
    const { versions } = await snapshots.versions("data");
    expect(versions.map(({ reference, is_current }) => [reference, is_current])).toEqual([
      ["data@1", false],
      ["data@2", true],
    ]);
    const { changes, recipe: steps, ...compared } = await snapshots.diff("data@1", "data");
    expect(compared).toEqual({ from: "data@1", to: "data@2" });
    const [from, to] = ["one", "two"].map((text) => ({ step: 1, text: `run echo ${text} > /text` }));
    expect(steps).toEqual([{ from, to }]);
    const fields = changes.map(({ field }) => field);
    expect(fields).toContain("digest");
    expect(fields).not.toContain("template.image");
    const first = await Sandbox.create({ snapshot: "data@1" });
    expect(await first.files.read("/text")).toBe("one\n");
    await first.kill();
    expect(await rejected(Sandbox.create({ template: "data" }))).toMatchObject({ code: "InvalidArgument" });
    expect(await rejected(Sandbox.create({ snapshot: "python" }))).toMatchObject({ code: "InvalidArgument" });
    expect(await rejected(snapshots.diff("data@1", "data@9"))).toMatchObject({ code: "NotFound", status: 404 });
  });
});

describe("a client of another namespace", () => {
  it("finds nothing of this one, by no id", async () => {
    const other = await world.connection("native-other", "agent");
    const sandbox = await Sandbox.create({ template: "python" });
    const cp = await sandbox.checkpoint.create();
    await sandbox.checkpoint.wait(cp);
    expect(await Sandbox.list(other)).toEqual({ sandboxes: [] });
    expect(await snapshots.list(other)).toEqual({ snapshots: [] });
    const work = [
      () => Sandbox.connect(sandbox.sandboxId, other),
      () => Sandbox.connect(sandbox.name, other),
      () => Sandbox.create({ ...other, checkpoint: cp.checkpoint_id }),
      () => raw(other, "GET", `/sandboxes/${sandbox.sandboxId}/checkpoints/${cp.id}`),
      () => raw(other, "POST", `/sandboxes/${sandbox.sandboxId}/checkpoints`, {}),
      () => raw(other, "POST", `/sandboxes/${sandbox.sandboxId}/checkpoints/${cp.id}/restore`),
      () => raw(other, "GET", `/sandboxes/${sandbox.sandboxId}/wait`),
      () => raw(other, "POST", `/sandboxes/${sandbox.sandboxId}/fork`, {}),
    ];
    for (const call of work) expect(await rejected(call())).toMatchObject({ code: "NotFound", status: 404 });
    expect(await Sandbox.kill(sandbox.sandboxId, other)).toBe(false);
    // Another key of the namespace has the rights of its own account.
    const second = await world.connection(world.namespace, "second");
    expect((await Sandbox.connect(sandbox.sandboxId, second)).name).toBe(sandbox.name);
    await sandbox.kill();
  });

  it.each([
    ["a wrong key", "e2b_00"],
    ["no key", ""],
  ])("gets an error with %s", async (_, apiKey) => {
    vi.stubEnv("RAMET_API_KEY", apiKey);
    expect(await rejected(Sandbox.list())).toMatchObject({ code: "Unauthorized" });
    vi.stubEnv("RAMET_API_KEY", options.apiKey);
  });
});

describe("a request whose answer is lost", () => {
  it("creates one sandbox, and one checkpoint", async () => {
    const proxy = await openProxy(options.apiUrl);
    const through = { ...options, apiUrl: proxy.url };
    const before = await count(sandboxKind);
    proxy.loseNext("POST /ramet/v1/sandboxes");
    const sandbox = await Sandbox.create({ ...through, template: "python" });
    expect(await count(sandboxKind)).toBe(before + 1);
    const checkpointsBefore = await count(checkpointKind);
    proxy.loseNext("/checkpoints");
    const cp = await sandbox.checkpoint.create({ name: "lost" });
    expect(await count(checkpointKind)).toBe(checkpointsBefore + 1);
    await sandbox.checkpoint.wait(cp);
    expect(proxy.broken()).toBe(2);
    await sandbox.kill();
    proxy.close();
  });
});

describe("a request that is not valid", () => {
  const ofSandbox = "/sandboxes/SANDBOX";
  it.each([
    { what: "two sources", body: { template: "python", snapshot: "a" }, reason: "exclude each other" },
    { what: "an unknown field", body: { templte: "python" }, reason: "templte" },
    { what: "a time of 0", body: { template: "python", timeout_ms: 0 }, reason: "timeout_ms" },
    { what: "a time of years", body: { template: "python", timeout_ms: 9e9 }, reason: "timeout_ms" },
    { what: "an unknown template", body: { template: "none" }, reason: "none", status: 404 },
    { what: "no JSON", body: "{", reason: "not JSON" },
    { what: "an unknown path", method: "GET", path: "/none", reason: "There is no GET /ramet/v1/none", status: 404 },
    { what: "an unknown sandbox", method: "GET", path: "/sandboxes/none", reason: "none", status: 404 },
    { what: "no files", path: `${ofSandbox}/checkpoints`, body: { contents: ["memory"] }, reason: "filesystem" },
    { what: "an empty name", path: `${ofSandbox}/checkpoints`, body: { name: "" }, reason: "name" },
    { what: "no forks", path: `${ofSandbox}/fork`, body: { count: 0 }, reason: "count" },
    { what: "a wait of years", method: "GET", path: `${ofSandbox}/wait?timeout_ms=1e12`, reason: "timeout_ms" },
  ])(
    "is rejected with a reason: $what",
    async ({ method = "POST", path = "/sandboxes", body, status = 400, reason }) => {
      const sandbox = await invalidSandbox();
      const error = await rejected(raw(options, method, path.replace("SANDBOX", sandbox.sandboxId), body));
      expect(error.status).toBe(status);
      expect(error.message).toContain(reason);
    },
  );

  let made: Promise<Sandbox> | undefined;
  const invalidSandbox = () => (made ??= Sandbox.create({ template: "python" }));
  afterAll(async () => (await made)?.kill());
});

it("allows pages of other origins to send requests with a key", async () => {
  const url = `${options.apiUrl}/ramet/v1/sandboxes`;
  const origin = "https://app.example";
  const asked = { origin, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key" };
  const preflight = await fetch(url, { method: "OPTIONS", headers: asked });
  expect([preflight.status, preflight.headers.get("access-control-allow-origin")]).toEqual([204, "*"]);
  expect(preflight.headers.get("access-control-allow-headers")).toContain("x-api-key");
  const refused = await fetch(url, { headers: { origin } });
  expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, "*"]);
});

it("runs in the Node of the system, alone", async () => {
  const own = join(import.meta.dirname, "../../node_modules");
  const found = (process.env["PATH"] ?? "").split(delimiter).map((directory) => join(directory, "node"));
  const node = found.find((path) => !path.startsWith(own) && existsSync(path)) ?? process.execPath;
  const program = `
    import { Sandbox } from ${JSON.stringify(join(import.meta.dirname, "../../dist/client.js"))};
    const sandbox = await Sandbox.create({ template: "python" });
    const cp = await sandbox.checkpoint.create({ name: "a" });
    await sandbox.checkpoint.wait({ checkpoint_id: cp.checkpoint_id });
    const { stdout } = await sandbox.commands.run("echo hello");
    await sandbox.kill();
    process.stdout.write(stdout);
  `;
  const { stdout } = await promisify(execFile)(node, ["--input-type=module", "-e", program], { timeout: 120_000 });
  expect(stdout).toBe("hello\n");
});

async function count(kind: typeof sandboxKind | typeof checkpointKind): Promise<number> {
  const { items } = await world.client.resource(refOf(kind)).list({ namespace: world.namespace });
  return items.length;
}

/** Sends one request, as any program can. */
async function raw(to: typeof options, method: string, path: string, body?: object | string): Promise<unknown> {
  const response = await fetch(`${to.apiUrl}/ramet/v1${path}`, {
    method,
    headers: { "x-api-key": to.apiKey },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.ok) return text;
  const { code, message } = JSON.parse(text) as { code: string; message: string };
  throw new RametError(code, message, { status: response.status });
}

/** A proxy that can end the connection of a request, after the server has answered it. */
async function openProxy(target: string) {
  let toBreak = "";
  let isLost = false;
  let broken = 0;
  const server = createServer((request, response) => {
    const { method, headers, url = "" } = request;
    const isBroken = toBreak !== "" && `${method ?? ""} ${url}`.includes(toBreak);
    if (isBroken) toBreak = "";
    const call = httpRequest(new URL(url, target), { method, headers }, (answer) => {
      if (!isBroken) {
        response.writeHead(answer.statusCode ?? 0, answer.headers);
        answer.pipe(response);
        return;
      }
      broken += 1;
      if (!isLost) response.writeHead(answer.statusCode ?? 0, answer.headers).flushHeaders();
      answer.once("data", () => response.socket?.destroy());
    });
    call.on("error", () => response.socket?.destroy());
    response.on("close", () => call.destroy());
    request.pipe(call);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Ends the next such stream after its first bytes. */
    breakNext: (text: string) => {
      [toBreak, isLost] = [text, false];
    },
    /** Ends the next such request without an answer. */
    loseNext: (text: string) => {
      [toBreak, isLost] = [text, true];
    },
    broken: () => broken,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
