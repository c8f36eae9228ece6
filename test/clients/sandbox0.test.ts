import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { Client } from "sandbox0";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { ClientWorld } from "./client-world.ts";
import { runPython } from "./python-client.ts";

/** The clients of Sandbox0, unmodified, over a real local cluster. The Python programs check what they see. */
let world: ClientWorld;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("sandbox0");
  environment = await world.sandbox0Environment();
});
afterAll(() => world.close());

interface Answer {
  status: number;
  headers: Headers;
  body: { success: boolean; data: Record<string, unknown>; error: { code: string; message: string } };
}

/** A request as the command line of Sandbox0 sends it. @param token undefined: none */
async function call(
  request: string,
  given?: unknown,
  token = environment["SANDBOX0_TOKEN"],
  { prefix = "", headers = {} }: { prefix?: string; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const [method = "", path = ""] = request.split(" ");
  const answer = await fetch(`${world.apiUrl}${prefix}${path}`, {
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      "content-type": "application/json",
      ...headers,
    },
    ...(given !== undefined && { body: typeof given === "string" ? given : JSON.stringify(given) }),
  });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Answer["body"] };
}

async function firstOf<T>(values: AsyncIterable<T>): Promise<T | undefined> {
  for await (const value of values) return value;
  return undefined;
}

const textOf = (value: unknown): string => String(value);
const untilPaused = (id: string) =>
  expect.poll(async () => (await call(`GET /api/v1/sandboxes/${id}`)).body.data["status"], waiting).toBe("paused");
const waiting = { timeout: 60_000, interval: 100 };

describe("the Python client", () => {
  it.each([
    ["sandbox0-0.9", "/sandbox0/0.9"],
    ["sandbox0-0.10", ""],
  ] as const)("initializes once and claims many with %s", async (sdk, prefix) => {
    const url = `${world.apiUrl}${prefix}`;
    expect(await runPython("sandbox0_seed.py", { sdk, environment: { ...environment, SANDBOX0_BASE_URL: url } })).toBe(
      "",
    );
  });

  it.each([
    ["sandbox0-0.9", "/sandbox0/0.9"],
    ["sandbox0-0.10", "/sandbox0"],
  ] as const)("runs code and commands, and changes files, with %s", async (sdk, prefix) => {
    const url = `${world.apiUrl}${prefix}`;
    expect(await runPython("sandbox0_work.py", { sdk, environment: { ...environment, SANDBOX0_BASE_URL: url } })).toBe(
      "",
    );
  });
});

it("serves the JavaScript client: claim, pause, snapshot, claim from it, restore, fork and delete", async () => {
  // All of it through the gateway, also the WebSockets.
  const client = new Client({ token: environment["SANDBOX0_TOKEN"] ?? "", baseUrl: world.sandboxUrl });
  const { sandboxes } = client;
  const seed = await sandboxes.claim("default", { ttl: 3600, hardTtl: 7200 });
  await seed.writeFile("/root/kept", "kept");
  expect((await seed.cmd("cat /root/kept")).stdout).toBe("kept");
  expect(await sandboxes.pauseAndWait(seed.id)).toMatchObject({ paused: true, status: "paused" });
  const snapshot = await sandboxes.createRootFSSnapshot(seed.id, { name: "tools v1", description: "a venv" });
  expect(snapshot).toMatchObject({ name: "tools v1", description: "a venv", sandboxId: seed.id });
  expect((await sandboxes.listRootFSSnapshots(seed.id)).map(({ id }) => id)).toEqual([snapshot.id]);
  const task = await sandboxes.claim("default", { snapshotId: snapshot.id });
  expect(Buffer.from(await task.readFile("/root/kept")).toString()).toBe("kept");
  const restored = await sandboxes.restoreRootFS(seed.id, { snapshotId: snapshot.id });
  expect(restored).toMatchObject({ sandboxId: seed.id, snapshotId: snapshot.id, status: "paused" });
  const { sandbox: fork, sourceSandboxId } = await sandboxes.fork(seed.id);
  expect([fork.paused, sourceSandboxId]).toEqual([true, seed.id]);
  expect(await sandboxes.resumeAndWait(seed.id)).toMatchObject({ status: "running" });
  const listed = await sandboxes.list({ paused: true, limit: 1 });
  expect(listed).toMatchObject({ count: 1, hasMore: false, sandboxes: [{ id: fork.id }] });
  expect((await client.templates.list()).map(({ templateId }) => templateId)).toContain("python");
  await expect(sandboxes.get("0".repeat(32))).rejects.toMatchObject({ statusCode: 404, code: "not_found" });
  expect((await client.quotas.list()).map(({ dimension }) => dimension)).toContain("active_sandboxes");
  const { windows } = await client.usage.listWindows({ windowType: "sandboxes" });
  expect(windows).toMatchObject([{ subjectType: "team", subjectId: world.namespace, unit: "count" }]);
  const metered = client.usage.listWindows({ windowType: "sandbox.egress_bytes" });
  await expect(metered).rejects.toMatchObject({ statusCode: 501, code: "not_supported" });
  const { events } = await seed.listObservabilityEvents({ action: "sandbox.resume" });
  expect(events).toMatchObject([{ outcome: "succeeded", resource: { type: "sandbox", id: seed.id } }]);
  const stream = await task.cmdStream("cat");
  stream.sendInput("over a WebSocket\n");
  expect(await firstOf(stream.outputs())).toMatchObject({ source: "stdout", data: "over a WebSocket\n" });
  stream.sendSignal("KILL");
  expect(await stream.wait()).toMatchObject({ exitCode: 137 });
  const watch = await task.watchFiles("/root");
  await task.writeFile("/root/changed", "1");
  expect(await firstOf(watch.events())).toMatchObject({ event: "create", path: "/root/changed" });
  watch.close();
  await sandboxes.deleteRootFSSnapshot(snapshot.id);
  for (const id of [seed.id, task.id, fork.id]) await sandboxes.delete(id);
});

describe("the requests of the command line", () => {
  let seed: string;
  let snapshot: string;

  it("creates, pauses, snapshots and claims", async () => {
    expect((await call("GET /metadata", undefined, "")).body.data).toMatchObject({ gateway_mode: "direct" });
    const created = await call("POST /api/v1/sandboxes", { template: "default", config: { hard_ttl: 86_400 } });
    expect([created.status, created.body.data["template"], created.body.data["cluster_id"]]).toEqual([
      201,
      "default",
      null,
    ]);
    seed = textOf(created.body.data["sandbox_id"]);
    expect(created.body.data["pod_name"]).toBe(created.body.data["runtime_id"]);
    const command = ["/bin/sh", "-lc", "mkdir -p /workspace/project && echo v1 > /workspace/project/ENVIRONMENT"];
    const ran = { type: "cmd", cmd: { command }, wait_until_done: true };
    expect((await call(`POST /api/v1/sandboxes/${seed}/contexts`, ran)).body.data).toMatchObject({ exit_code: 0 });
    expect((await call(`POST /api/v1/sandboxes/${seed}/pause`)).status).toBe(200);
    await untilPaused(seed);
    const named = { name: "python-test-tools-v1", description: "with venv, ruff, and pytest" };
    const taken = await call(`POST /api/v1/sandboxes/${seed}/snapshots`, named);
    expect([taken.status, taken.body.data]).toMatchObject([201, named]);
    expect(taken.body.data).not.toHaveProperty("expires_at");
    snapshot = textOf(taken.body.data["id"]);
    const claim = { template: "default", snapshot_id: snapshot, config: { hard_ttl: 3_600 } };
    const task = textOf((await call("POST /api/v1/sandboxes", claim)).body.data["sandbox_id"]);
    const read = { type: "cmd", cmd: { command: ["cat", "/workspace/project/ENVIRONMENT"] }, wait_until_done: true };
    expect((await call(`POST /api/v1/sandboxes/${task}/contexts`, read)).body.data).toMatchObject({ stdout: "v1\n" });
    expect((await call(`DELETE /api/v1/sandboxes/${task}`)).status).toBe(202);
  });

  it("shows kubectl a checkpoint of files with its texts", async () => {
    const { items } = await world.client.of(checkpointKind).list({ namespace: world.namespace });
    const found = items.find(({ status }) => status?.checkpointId === snapshot);
    expect(found?.status?.ramet?.contents).toEqual(["filesystem"]);
    expect(found?.metadata.annotations).toMatchObject({
      [annotations.displayName]: "python-test-tools-v1",
      [annotations.description]: "with venv, ruff, and pytest",
    });
  });

  it("claims a ready sandbox of a set with a snapshot, and none for a snapshot that does not exist", async () => {
    await world.createSet("warm", 1);
    const before = await world.client.of(sandboxKind).list({ namespace: world.namespace });
    const unknown = await call("POST /api/v1/sandboxes", { template: "warm", snapshot_id: "none" });
    expect([unknown.status, unknown.body.error.code]).toEqual([404, "not_found"]);
    const after = await world.client.of(sandboxKind).list({ namespace: world.namespace });
    // The ready sandbox was not consumed.
    expect(after.items.map(({ metadata }) => metadata.uid).toSorted()).toEqual(
      before.items.map(({ metadata }) => metadata.uid).toSorted(),
    );
    const ready = after.items.find(({ metadata }) => metadata.ownerReferences?.some(({ name }) => name === "warm"));
    const claimed = await call("POST /api/v1/sandboxes", { template: "warm", snapshot_id: snapshot });
    expect([claimed.status, claimed.body.data["pod_name"]]).toEqual([201, ready?.metadata.name]);
    const read = { type: "cmd", cmd: { command: ["cat", "/workspace/project/ENVIRONMENT"] }, wait_until_done: true };
    const id = textOf(claimed.body.data["sandbox_id"]);
    expect((await call(`POST /api/v1/sandboxes/${id}/contexts`, read)).body.data).toMatchObject({ stdout: "v1\n" });
  });

  it("claims a ready sandbox of a set that was restored from the snapshot, and restores it no second time", async () => {
    const containers = [{ name: "main", image: "python", command: ["sleep", "infinity"] }];
    const metadata = { annotations: { "ramet.dev/restore-from": snapshot } };
    await world.createSet("restored", 1, { template: { metadata, spec: { containers } } });
    const claimed = await call("POST /api/v1/sandboxes", { template: "restored", snapshot_id: snapshot });
    expect(claimed.status).toBe(201);
    const at = { namespace: world.namespace, name: textOf(claimed.body.data["pod_name"]) };
    const found = await world.client.of(sandboxKind).find(at);
    expect(found?.metadata.generateName ?? at.name).toMatch(/^restored-/);
    expect(found?.status?.ramet).toMatchObject({ restoredFrom: snapshot });
    expect(found?.status?.ramet?.rollback).toBeUndefined();
    const read = { type: "cmd", cmd: { command: ["cat", "/workspace/project/ENVIRONMENT"] }, wait_until_done: true };
    const id = textOf(claimed.body.data["sandbox_id"]);
    expect((await call(`POST /api/v1/sandboxes/${id}/contexts`, read)).body.data).toMatchObject({ stdout: "v1\n" });
  });

  it("takes environment and resources from the template, and the files from a named snapshot", async () => {
    const main = {
      name: "main",
      image: "python",
      command: ["sleep", "infinity"],
      env: [{ name: "WHO", value: "other" }],
    };
    const limited = { ...main, resources: { limits: { memory: "300Mi" } } };
    const { apiVersion, kind } = sandboxTemplateKind;
    const metadata = { namespace: world.namespace, name: "other" };
    await world.client
      .of(sandboxTemplateKind)
      .create({ apiVersion, kind, metadata, spec: { template: { spec: { containers: [limited] } } } });
    const named = { apiVersion: namedSnapshotKind.apiVersion, kind: namedSnapshotKind.kind };
    const spec = { from: { checkpoint: { id: snapshot } }, contents: ["filesystem"] };
    await world.client.of(namedSnapshotKind).create({ ...named, metadata: { ...metadata, name: "tools" }, spec });
    const claim = async (template: string) => call("POST /api/v1/sandboxes", { template, snapshot_id: "tools" });
    const claimed = { status: 0, id: "" };
    const attempt = async () => {
      const { status, body } = await claim("other");
      Object.assign(claimed, { status, id: textOf(body.success ? body.data["sandbox_id"] : "") });
      return status;
    };
    // 409 until its first version is built.
    await expect.poll(attempt, { ...waiting, interval: 500 }).toBe(201);
    const command = ["sh", "-c", "echo $WHO; cat /workspace/project/ENVIRONMENT"];
    const ran = await call(`POST /api/v1/sandboxes/${claimed.id}/contexts`, {
      type: "cmd",
      cmd: { command },
      wait_until_done: true,
    });
    expect(ran.body.data).toMatchObject({ stdout: "other\nv1\n" });
    const { items } = await world.client.of(sandboxKind).list({ namespace: world.namespace });
    const found = items.find(({ metadata: { uid } }) => uid.replaceAll("-", "") === claimed.id);
    expect(found?.spec.templateRef?.name ?? JSON.stringify(found?.spec.template)).toMatch(/^other$|300Mi/);
    const mismatch = await claim("code-interpreter");
    expect([mismatch.status, mismatch.body.error]).toMatchObject([
      400,
      { code: "bad_request", details: { reason: "TemplateMismatch" } },
    ]);
  });

  it("lists the snapshots of a sandbox that was deleted", async () => {
    expect((await call(`DELETE /api/v1/sandboxes/${seed}`)).status).toBe(202);
    await expect.poll(async () => (await call(`GET /api/v1/sandboxes/${seed}`)).status, waiting).toBe(404);
    expect((await call(`GET /api/v1/sandboxes/${seed}/snapshots`)).body.data).toMatchObject({ count: 1 });
    expect((await call(`DELETE /api/v1/sandbox-rootfs-snapshots/${snapshot}`)).status).toBe(200);
    expect((await call(`GET /api/v1/sandboxes/${seed}/snapshots`)).status).toBe(404);
  });
});

it("creates once for each Idempotency-Key, and refuses another request with it", async () => {
  const once = (request: string, body: object, key: string) =>
    call(request, body, environment["SANDBOX0_TOKEN"], { headers: { "idempotency-key": key } });
  const claim = (body: object) => once("POST /api/v1/sandboxes", { template: "default", ...body }, "claim");
  const id = textOf((await claim({ config: { ttl: 600 } })).body.data["sandbox_id"]);
  expect((await claim({ config: { ttl: 600 } })).body.data["sandbox_id"]).toBe(id);
  expect(await claim({ config: { ttl: 601 } })).toMatchObject({ status: 409, body: { error: { code: "conflict" } } });
  const fork = () => once(`POST /api/v1/sandboxes/${id}/fork`, {}, "fork");
  const [first, second] = [await fork(), await fork()];
  expect(first).toMatchObject({ status: 201 });
  expect(second.body.data["sandbox"]).toMatchObject({ id: (first.body.data["sandbox"] as { id: string }).id });
  expect(await once(`POST /api/v1/sandboxes/${id}/fork`, {}, "claim")).toMatchObject({ status: 409 });
  for (const each of [id, textOf((first.body.data["sandbox"] as { id: string }).id)])
    await call(`DELETE /api/v1/sandboxes/${each}`);
});

it("follows the output of the entrypoint and the events, until the sandbox is deleted, and each line once", async () => {
  const command = ["sh", "-c", "for n in $(seq 500); do echo line $n; done; sleep 2; echo last; sleep infinity"];
  const spec = { template: { spec: { containers: [{ name: "main", image: "python", command }] } } };
  const { apiVersion, kind } = sandboxTemplateKind;
  const metadata = { namespace: world.namespace, name: "talking" };
  await world.client.of(sandboxTemplateKind).create({ apiVersion, kind, metadata, spec });
  const id = textOf((await call("POST /api/v1/sandboxes", { template: "talking" })).body.data["sandbox_id"]);
  const observability = `${world.apiUrl}/api/v1/sandboxes/${id}/observability`;
  const headers = { authorization: `Bearer ${environment["SANDBOX0_TOKEN"]}` };
  const follow = async (path: string) => {
    const answer = await fetch(`${observability}/${path}`, { headers });
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/x-ndjson"]);
    return linesOf(answer.body!);
  };
  const always = "watch=true&start_time=2000-01-01T00:00:00Z";
  const [log, events] = [await follow(`logs?${always}`), await follow(`events?${always}`)];
  const ended = `${always}&end_time=2100-01-01T00:00:00Z`;
  expect((await call(`GET /api/v1/sandboxes/${id}/observability/events?${ended}`)).status).toBe(400);
  const messages: string[] = [];
  let cursor = "";
  for await (const line of log) {
    if (line.type === "watermark") cursor = line.cursor ?? "";
    if (line.type === "log") messages.push(String(line.data?.["message"]));
    if (line.type === "watermark" && messages.at(-1) === "last") break;
  }
  const lines = Array.from({ length: 500 }, (_, at) => `line ${at + 1}`);
  expect(messages).toEqual([...lines, "last"]);
  expect((await call(`GET /api/v1/sandboxes/${id}/observability/logs?cursor=${cursor}`)).body.data["logs"]).toEqual([]);
  const pages: string[] = [];
  for (let next: unknown = "0"; next !== undefined;) {
    const { data } = (await call(`GET /api/v1/sandboxes/${id}/observability/logs?limit=100&cursor=${textOf(next)}`))
      .body;
    pages.push(...(data["logs"] as { message: string }[]).map(({ message }) => message));
    next = data["next_cursor"];
  }
  expect(pages).toEqual(messages);
  // Without a cursor and a time, they begin at the request.
  const later = [await follow("logs?watch=true"), await follow("events?watch=true")];
  expect((await call(`DELETE /api/v1/sandboxes/${id}`)).status).toBe(202);
  const seen: Line[] = [];
  for await (const line of events) seen.push(line);
  expect(seen.map(({ data }) => data?.["action"])).toContain("sandbox.create");
  expect(seen.at(-1)).toMatchObject({ type: "error", error: expect.stringContaining("does not exist") as string });
  for (const watch of later) {
    const types: string[] = [];
    for await (const { type, data } of watch) if (data?.["action"] !== "sandbox.delete") types.push(type);
    expect(types[0]).toBe("heartbeat");
    expect(types.at(-1)).toBe("error");
    expect(types.filter((type) => type === "log" || type === "event")).toEqual([]);
  }
});

interface Line {
  type: "event" | "log" | "heartbeat" | "watermark" | "error";
  data?: Record<string, unknown>;
  cursor?: string;
  error?: string;
}

/** Reads the body from now on: Node cancels one that nobody reads when its response is collected as garbage. */
function linesOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Line> {
  return linesIn(body.pipeThrough(new TextDecoderStream()));
}

async function* linesIn(texts: ReadableStream<string>): AsyncGenerator<Line> {
  let rest = "";
  for await (const text of texts) {
    const lines = `${rest}${text}`.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line) as Line;
  }
}

it("hides and deletes a snapshot when it expires", async () => {
  const claimed = await call("POST /api/v1/sandboxes", { template: "default" });
  const id = textOf(claimed.body.data["sandbox_id"]);
  const expires = { expires_at: new Date(Date.now() + 3_600_000).toISOString() };
  const taken = await call(`POST /api/v1/sandboxes/${id}/snapshots`, expires);
  const snapshot = textOf(taken.body.data["id"]);
  const { items } = await world.client.of(checkpointKind).list({ namespace: world.namespace });
  const at = items.find(({ status }) => status?.checkpointId === snapshot)!.metadata;
  const earlier = { [annotations.expiresAt]: new Date(Date.now() + 1_000).toISOString() };
  await world.client.of(checkpointKind).mergePatch(at, { metadata: { annotations: earlier } });
  const statusOf = async (request: string, body?: object) => (await call(request, body)).status;
  const read = () => statusOf(`GET /api/v1/sandbox-rootfs-snapshots/${snapshot}`);
  await expect.poll(read, waiting).toBe(404);
  expect(await statusOf("POST /api/v1/sandboxes", { template: "default", snapshot_id: snapshot })).toBe(404);
  await expect.poll(() => world.client.of(checkpointKind).find(at), waiting).toBeUndefined();
  await call(`DELETE /api/v1/sandboxes/${id}`);
});

it("gives claims from a snapshot that is deleted or expires meanwhile its files, or no sandbox", async () => {
  const listed = async () => {
    const { body } = await call("GET /api/v1/sandboxes?limit=200");
    return (body.data["sandboxes"] as { id: string }[]).map(({ id }) => id);
  };
  const claimed = await call("POST /api/v1/sandboxes", { template: "default" });
  const id = textOf(claimed.body.data["sandbox_id"]);
  const context = (command: string[]) => ({ type: "cmd", cmd: { command }, wait_until_done: true });
  await call(`POST /api/v1/sandboxes/${id}/contexts`, context(["sh", "-c", "echo kept > /root/kept"]));
  const before = await listed();
  const kept: string[] = [];
  const immediately = () => Promise.resolve();
  const oncePresent = () => expect.poll(listed, waiting).toHaveLength(before.length + kept.length + 1);
  const remove = async (snapshot: string) => {
    expect((await call(`DELETE /api/v1/sandbox-rootfs-snapshots/${snapshot}`)).status).toBe(200);
  };
  const expire = async (snapshot: string) => {
    const checkpoints = world.client.of(checkpointKind);
    const { items } = await checkpoints.list({ namespace: world.namespace });
    const at = items.find(({ status }) => status?.checkpointId === snapshot)!.metadata;
    const past = { [annotations.expiresAt]: new Date(Date.now() - 1_000).toISOString() };
    await checkpoints.mergePatch(at, { metadata: { annotations: past } });
    await expect.poll(() => checkpoints.find(at), waiting).toBeUndefined();
  };
  for (const [moment, end] of [
    [immediately, remove],
    [immediately, remove],
    [immediately, expire],
    [oncePresent, remove],
    [oncePresent, expire],
  ] as const) {
    const taken = await call(`POST /api/v1/sandboxes/${id}/snapshots`, {});
    const snapshot = textOf(taken.body.data["id"]);
    const claiming = call("POST /api/v1/sandboxes", { template: "default", snapshot_id: snapshot });
    await moment();
    await end(snapshot);
    const { status, body } = await claiming;
    if (status !== 201) {
      // A claim that finds it being deleted conflicts with that.
      expect([404, 409], JSON.stringify(body.error)).toContain(status);
      continue;
    }
    const task = textOf(body.data["sandbox_id"]);
    const read = await call(`POST /api/v1/sandboxes/${task}/contexts`, context(["cat", "/root/kept"]));
    expect(read.body.data).toMatchObject({ exit_code: 0 });
    kept.push(task);
  }
  await expect.poll(listed, waiting).toHaveLength(before.length + kept.length);
  for (const each of [id, ...kept]) await call(`DELETE /api/v1/sandboxes/${each}`);
});

it("pauses a sandbox when its soft time is over, and deletes the paused one when its hard time is", async () => {
  const claimed = await call("POST /api/v1/sandboxes", {
    template: "default",
    config: { ttl: 3_600, hard_ttl: 3_600 },
  });
  const id = textOf(claimed.body.data["sandbox_id"]);
  const changed = await call(`PUT /api/v1/sandboxes/${id}`, { config: { ttl: 1, hard_ttl: 12 } });
  expect(changed.status).toBe(200);
  await untilPaused(id);
  expect((await call(`GET /api/v1/sandboxes/${id}`)).body.data).toMatchObject({ expires_at: null });
  await expect.poll(async () => (await call(`GET /api/v1/sandboxes/${id}`)).status, waiting).toBe(404);
});

it("bounds the output of contexts and the events of watches that their clients do not read, and loses none silently", async () => {
  const id = textOf((await call("POST /api/v1/sandboxes", { template: "default" })).body.data["sandbox_id"]);
  const contexts = `/api/v1/sandboxes/${id}/contexts`;
  const context = async (command: string[], waits: boolean) =>
    call(`POST ${contexts}`, { type: "cmd", cmd: { command }, wait_until_done: waits });
  const connect = async (path: string): Promise<WebSocket> => {
    const url = `${world.apiUrl.replace("http", "ws")}/api/v1/sandboxes/${id}/${path}`;
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${environment["SANDBOX0_TOKEN"]}` } });
    await once(socket, "open");
    return socket;
  };
  expect(await context(["yes"], true)).toMatchObject({ status: 413, body: { error: { code: "bad_request" } } });
  const endless = textOf((await context(["yes"], false)).body.data["id"]);
  const watch = await connect("files/watch");
  watch.send(JSON.stringify({ action: "subscribe", path: "/root", recursive: true }));
  await once(watch, "message");
  watch.pause();
  const files = 100_000;
  // A busy machine takes longer for all of them than a request may wait.
  const part = files / 10;
  for (let first = 0; first < files; first += part) {
    const write = `import os\nfor n in range(${first}, ${first + part}): os.close(os.open(f"/root/{n}", os.O_CREAT))`;
    expect(await context(["python3", "-c", write], true)).toMatchObject({ body: { data: { exit_code: 0 } } });
  }
  // A connection that nobody reads ends after a while, and how long the files take depends on the machine.
  const output = await connect(`contexts/${endless}/ws`);
  output.pause();
  let events = 0;
  const ended = new Promise<"all" | number>((resolve) => {
    watch.on("message", (data: Buffer) => {
      if (data.includes('"event":"create"') && ++events === files) resolve("all");
    });
    watch.on("close", resolve);
  });
  watch.resume();
  // Either all of them, or an end with a reason.
  expect(["all", 1011]).toContain(await ended);
  expect((await call(`DELETE ${contexts}/${endless}`)).status).toBe(200);
  const last = new Promise((resolve) => {
    output.on("message", (data: Buffer) => {
      const message = JSON.parse(data.toString()) as { type: string };
      if (message.type === "done") resolve(message);
    });
  });
  output.resume();
  expect(await last).toMatchObject({ type: "done", exit_code: 137 });
  for (const socket of [output, watch]) socket.terminate();
  await call(`DELETE /api/v1/sandboxes/${id}`);
});

it("creates one template for requests with the same name at the same time", async () => {
  const id = textOf((await call("POST /api/v1/sandboxes", { template: "default" })).body.data["sandbox_id"]);
  const create = (template: string, headers = {}) =>
    call("POST /api/v1/templates/from-sandbox", { template_id: template, sandbox_id: id }, undefined, { headers });
  const versions = async (name: string) => {
    const found = await world.client.of(namedSnapshotKind).get({ namespace: world.namespace, name });
    return found.status?.versions?.map(({ version }) => version);
  };
  const strangers = await Promise.all([create("once"), create("once")]);
  expect(strangers.map(({ status }) => status).toSorted()).toEqual([202, 409]);
  expect(await versions("once")).toEqual([1]);
  const key = { "idempotency-key": "same" };
  const repeats = await Promise.all([create("repeated", key), create("repeated", key)]);
  expect(repeats.map(({ status }) => status).filter((status) => status !== 202 && status !== 409)).toEqual([]);
  expect((await create("repeated", key)).status).toBe(202);
  expect(await versions("repeated")).toEqual([1]);
  for (const name of ["once", "repeated"]) await call(`DELETE /api/v1/templates/${name}`);
  await call(`DELETE /api/v1/sandboxes/${id}`);
});

describe("requests of others", () => {
  it("answers foreign ids as ids that do not exist", async () => {
    const claimed = await call("POST /api/v1/sandboxes", { template: "default" });
    const id = textOf(claimed.body.data["sandbox_id"]);
    const snapshot = textOf((await call(`POST /api/v1/sandboxes/${id}/snapshots`, {})).body.data["id"]);
    const other = (await world.sandbox0Environment("sandbox0-other"))["SANDBOX0_TOKEN"];
    const none = randomBytes(16).toString("hex");
    const requests = [
      "GET ",
      "DELETE ",
      "POST /pause",
      "POST /resume",
      "POST /fork",
      "GET /snapshots",
      "GET /contexts",
      "GET /contexts/cmd-00000000-0000000000000000/ws",
      "POST /contexts/cmd-00000000-0000000000000000/restart",
      "GET /files/watch",
      "GET /network",
      "GET /services",
      "GET /metrics",
      "GET /metrics/catalog",
      "GET /observability/logs",
      "GET /observability/logs?watch=true",
      "GET /observability/events",
      "GET /observability/events?watch=true",
    ];
    for (const each of requests) {
      const [method = "", rest = ""] = each.split(" ");
      const to = (name: string) => call(`${method} /api/v1/sandboxes/${name}${rest}`, undefined, other);
      const [foreign, unknown] = [await to(id), await to(none)];
      expect([each, foreign.status, foreign.body.error.code]).toEqual([each, 404, "not_found"]);
      expect(foreign.body.error.message.replaceAll(id, none)).toBe(unknown.body.error.message);
    }
    for (const [path, key, status] of [
      ["files/watch", other, 404],
      ["contexts/cmd-00000000-0000000000000000/ws", other, 404],
      ["files/watch", "s0_eu_00", 401],
      ["contexts/1/ws", environment["SANDBOX0_TOKEN"], 404],
    ] as const) {
      const url = `${world.apiUrl.replace("http", "ws")}/api/v1/sandboxes/${id}/${path}`;
      const socket = new WebSocket(url, { headers: { authorization: `Bearer ${key}` } });
      const [error] = (await once(socket, "error")) as [Error];
      expect([path, error.message]).toEqual([path, `Unexpected server response: ${status}`]);
    }
    const template = { template_id: "stolen", sandbox_id: id };
    expect((await call("POST /api/v1/templates/from-sandbox", template, other)).status).toBe(404);
    for (const method of ["GET", "DELETE"])
      expect((await call(`${method} /api/v1/sandbox-rootfs-snapshots/${snapshot}`, undefined, other)).status).toBe(404);
    await call(`DELETE /api/v1/sandboxes/${id}`);
  });

  it.each([
    ["no key", "GET /sandbox0/api/v1/sandboxes", undefined, "", 401, "unauthorized"],
    ["a wrong key", "GET /api/v1/sandboxes", undefined, `s0_eu_${"0".repeat(48)}`, 401, "unauthorized"],
    ["an unknown route", "GET /api/v1/unknown", undefined, undefined, 404, "not_found"],
    ["no JSON", "POST /api/v1/sandboxes", "{", undefined, 400, "bad_request"],
    ["no template", "POST /api/v1/sandboxes", {}, undefined, 400, "bad_request"],
    [
      "a negative time",
      "POST /api/v1/sandboxes",
      { template: "default", config: { ttl: -1 } },
      undefined,
      400,
      "bad_request",
    ],
    [
      "a time that is no number",
      "POST /api/v1/sandboxes",
      '{"template":"default","config":{"ttl":NaN}}',
      undefined,
      400,
      "bad_request",
    ],
    [
      "a time of years",
      "POST /api/v1/sandboxes",
      { template: "default", config: { ttl: 99_999_999 } },
      undefined,
      400,
      "bad_request",
    ],
    [
      "a soft time above the hard one",
      "POST /api/v1/sandboxes",
      { template: "default", config: { ttl: 9, hard_ttl: 5 } },
      undefined,
      400,
      "bad_request",
    ],
    [
      "another memory",
      "POST /api/v1/sandboxes",
      { template: "default", config: { resources: { memory: "1Gi" } } },
      undefined,
      400,
      "bad_request",
    ],
    ["too large a page", "GET /api/v1/sandboxes?limit=201", undefined, undefined, 400, "bad_request"],
    ["teams", "GET /teams", undefined, undefined, 501, "not_supported"],
    ["volumes", "POST /api/v1/sandboxvolumes", {}, undefined, 501, "not_supported"],
  ] as const)("answers in the envelope: %s", async (...[, request, given, token, status, code]) => {
    const answer = await call(request, given, token ?? environment["SANDBOX0_TOKEN"]);
    expect([answer.status, answer.body.success, answer.body.error.code]).toEqual([status, false, code]);
  });

  it("leaves the same path to AgentTier for keys of another format", async () => {
    const { apiKey } = await world.connection();
    const answer = await fetch(`${world.apiUrl}/api/v1/sandboxes`, { headers: { authorization: `Bearer ${apiKey}` } });
    expect(await answer.json()).not.toHaveProperty("success");
    const prefixed = await call("GET /api/v1/sandboxes", undefined, apiKey, { prefix: "/sandbox0" });
    expect(prefixed.body.success).toBe(true);
  });
});
