import { Readable } from "node:stream";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { annotations, restoreFrom } from "../../src/api/names/labels.ts";
import { snapshotClassesIn, snapshotsIn } from "../../src/kube/volumes/snapshots.ts";
import { agentTierCommand } from "./agenttier-command.ts";
import { ClientWorld } from "./client-world.ts";
import { runPython } from "./python-client.ts";

/**
 * The examples of AgentTier's documentation page "Sandbox cloning", in the order of the page, over a real local cluster. The blocks about
 * the installation of the snapshot stack are tested where Ramet installs it.
 */
let world: ClientWorld;
let environment: Record<string, string>;

beforeAll(async () => {
  world = await ClientWorld.shared("seed-001");
  environment = await world.agentTierEnvironment();
  await call("POST", "/sandboxes", { name: "my-sandbox", templateRef: { name: "python" }, timeout: "8h" });
  await untilRunning("my-sandbox");
  await call("POST", "/sandboxes/my-sandbox/ports", { port: 8000, protocol: "http" });
  await call("POST", "/sandboxes/my-sandbox/configure", { entrypoint: ["cat", "/workspace/file"] });
  await call("PUT", "/sandboxes/my-sandbox/files/workspace/file", "workspace");
});
afterAll(() => world.close());

describe("quick start", () => {
  it("clones by one request, which is answered before the clone runs", async () => {
    const { status, body } = await call("POST", "/sandboxes/my-sandbox/clone", { name: "my-sandbox-fork" });
    expect(status).toBe(202);
    expect(body).toEqual({
      name: "my-sandbox-fork",
      namespace: world.namespace,
      snapshot: expect.stringMatching(/^my-sandbox-snap-\d{10}$/) as unknown,
      clonedFrom: "my-sandbox",
      phase: "Pending",
      message: expect.stringContaining("Poll GET /api/v1/sandboxes/my-sandbox-fork") as unknown,
    });
    const created = await call("GET", "/sandboxes/my-sandbox-fork");
    expect(created.status).toBe(200);
    expect(["Creating", "Running"]).toContain(created.body["status"]);
    await untilRunning("my-sandbox-fork");
  });
});

describe("the body of the request", () => {
  it.each([
    ["none", undefined],
    ["an empty one", {}],
    ["an empty name", { name: "" }],
  ])("is optional: %s", async (_, given) => {
    const { status, body } = await call("POST", "/sandboxes/my-sandbox/clone", given);
    expect(status).toBe(202);
    expect(body["name"]).toMatch(/^my-sandbox-clone-\d{10}$/);
    await untilRunning(String(body["name"]));
    await call("DELETE", `/sandboxes/${String(body["name"])}`);
  });

  it("can be sent in chunks, which AgentTier ignores", async () => {
    const { apiUrl } = world;
    const body = Readable.from(['{"name": ', '"chunked"}']);
    const answer = await request(`${apiUrl}/api/v1/sandboxes/my-sandbox/clone`, {
      method: "POST",
      headers: { "x-api-key": environment["AGENTTIER_API_KEY"] ?? "" },
      body,
    });
    expect(await answer.body.json()).toMatchObject({ name: "chunked" });
    await untilRunning("chunked");
  });

  it.each([
    ["a name that is no label", { name: "My_Sandbox" }, 400, "RFC 1123"],
    ["a taken name", { name: "my-sandbox-fork" }, 409, "my-sandbox-fork exists"],
    ["an unknown snapshot class", { snapshotClass: "other" }, 400, 'snapshotClass is "other"'],
    ["no JSON", "{", 400, "The body of the request is not JSON"],
  ])("is rejected with a reason: %s", async (_, given, status, reason) => {
    const before = (await checkpoints()).length;
    const answer = await call("POST", "/sandboxes/my-sandbox/clone", given);
    expect([answer.status, answer.body["error"]]).toEqual([status, expect.stringContaining(reason)]);
    expect(await checkpoints()).toHaveLength(before);
  });

  it("is repeated with an Idempotency-Key without a second clone", async () => {
    const key = { "idempotency-key": "once" };
    const first = await call("POST", "/sandboxes/my-sandbox/clone", { name: "once" }, key);
    const second = await call("POST", "/sandboxes/my-sandbox/clone", { name: "once" }, key);
    expect([first.status, second.status, second.body]).toEqual([202, 202, first.body]);
  });
});

describe("what gets cloned", () => {
  it("is the workspace, byte for byte", async () => {
    const { body } = await call("POST", "/sandboxes/my-sandbox-fork/exec", { command: "cat /workspace/file" });
    expect(body).toEqual({ stdout: "workspace", stderr: "", exitCode: 0 });
  });

  it("is the spec: template, ports and agent", async () => {
    const { body } = await call("GET", "/sandboxes/my-sandbox-fork");
    expect(body).toMatchObject({ templateRef: "python", mode: "agent" });
    expect((await call("GET", "/sandboxes/my-sandbox-fork/ports")).body["ports"]).toMatchObject([{ port: 8000 }]);
    const invoked = await call("POST", "/sandboxes/my-sandbox-fork/invoke");
    expect(invoked.text).toContain(`event: log\ndata: {"stream":"stdout","data":"workspace"}\n\nevent: exit\n`);
  });

  it("is not the creator, which is the key that clones", async () => {
    const other = await world.agentTierEnvironment(world.namespace, "other");
    const headers = { "x-api-key": other["AGENTTIER_API_KEY"] ?? "" };
    await call("POST", "/sandboxes/my-sandbox/clone", { name: "of-other" }, headers);
    const { body } = await call("GET", "/sandboxes/of-other");
    expect(body["createdBy"]).toEqual({ displayName: `${world.namespace}/other` });
  });

  it("names its source and its snapshot, in answers and on the object", async () => {
    const { body } = await call("GET", "/sandboxes/my-sandbox-fork");
    expect(body["clonedFrom"]).toBe("my-sandbox");
    const sandboxes = world.client.of(sandboxKind);
    const object = await sandboxes.get({ namespace: world.namespace, name: "my-sandbox-fork" });
    expect(object.metadata.annotations?.[annotations.clonedFrom]).toBe("my-sandbox");
    const ids = (await checkpoints()).map(({ status }) => status?.checkpointId);
    expect(ids).toContain(restoreFrom(object));
    expect(body["cloneFromSnapshot"]).toBe(restoreFrom(object));
  });
});

describe("lifecycle", () => {
  it("keeps the snapshot when its source is deleted, and the clone when the snapshot is deleted", async () => {
    await call("POST", "/sandboxes", { name: "short", templateRef: { name: "python" } });
    await untilRunning("short");
    const { body } = await call("POST", "/sandboxes/short/clone", { name: "of-short" });
    await untilRunning("of-short");
    await call("DELETE", "/sandboxes/short");
    const name = String(body["snapshot"]);
    const resource = world.client.of(checkpointKind);
    const kept = await resource.get({ namespace: world.namespace, name });
    expect([kept.status?.phase, kept.spec.ttlAfterFinished]).toEqual(["Succeeded", undefined]);
    await resource.delete({ namespace: world.namespace, name });
    expect((await call("POST", "/sandboxes/of-short/exec", { command: "echo runs" })).body["stdout"]).toBe("runs\n");
  });
});

describe("a sandbox with a workspace", () => {
  it("has a VolumeSnapshot with the name in the answer and the requested class, which kubectl deletes", async () => {
    const storage = { size: "1Gi" };
    await call("POST", "/sandboxes", { name: "stored", templateRef: { name: "python" }, storage });
    await untilRunning("stored");
    const { items } = await snapshotClassesIn(world.client).list();
    const snapshotClass = items.find(({ deletionPolicy }) => deletionPolicy === "Delete")?.metadata.name;
    const { status, body } = await call("POST", "/sandboxes/stored/clone", { name: "of-stored", snapshotClass });
    expect([status, body["snapshot"]]).toEqual([202, expect.stringMatching(/^stored-snap-\d{10}$/)]);
    await untilRunning("of-stored");
    const at = { namespace: world.namespace, name: String(body["snapshot"]) };
    const snapshots = snapshotsIn(world.client);
    expect((await snapshots.get(at)).spec?.volumeSnapshotClassName).toBe(snapshotClass);
    const { metadata } = await world.client.of(checkpointKind).get(at);
    expect(metadata.ownerReferences).toMatchObject([{ kind: "VolumeSnapshot", name: at.name }]);
    await snapshots.delete(at);
    expect((await call("POST", "/sandboxes/of-stored/exec", { command: "echo runs" })).body["stdout"]).toBe("runs\n");
  });
});

describe("limits", () => {
  it("rejects a sandbox that does not run yet", async () => {
    const missing = {
      name: "never",
      templateRef: { name: "python" },
      storage: { size: "1Gi", storageClass: "missing" },
    };
    expect((await call("POST", "/sandboxes", missing)).status).toBe(201);
    const { status, body } = await call("POST", "/sandboxes/never/clone");
    expect([status, body["error"]]).toEqual([400, expect.stringContaining("never is starting")]);
    await call("DELETE", "/sandboxes/never");
  });

  it("knows no sandboxes of other namespaces", async () => {
    const other = await world.agentTierEnvironment("seed-001-other");
    const headers = { "x-api-key": other["AGENTTIER_API_KEY"] ?? "" };
    expect((await call("POST", "/sandboxes/my-sandbox/clone", {}, headers)).status).toBe(404);
  });
});

describe("programmatic access", () => {
  it("clones by the client for Python, which has other calls than the page", async () => {
    expect(await runPython("agenttier_seed.py", { sdk: "agenttier", environment })).toBe("");
  });

  it("clones by the command line", async () => {
    const args = ["sandbox", "clone", "my-sandbox", "--name", "my-sandbox-of-cli"];
    const stdout = await agentTierCommand(environment, ...args);
    expect(stdout).toContain("clone my-sandbox-of-cli created from my-sandbox\n");
    await untilRunning("my-sandbox-of-cli");
  });
});

async function checkpoints(): Promise<Checkpoint[]> {
  const resource = world.client.of(checkpointKind);
  return (await resource.list({ namespace: world.namespace })).items;
}

async function untilRunning(name: string): Promise<void> {
  const check = async (): Promise<void> => {
    expect((await call("GET", `/sandboxes/${name}`)).body["status"]).toBe("Running");
  };
  await vi.waitFor(check, { timeout: 60_000, interval: 100 });
}

async function call(
  method: "GET" | "POST" | "PUT" | "DELETE",
  path: string,
  given?: object | string,
  headers: Record<string, string> = {},
): Promise<{ status: number; body: Record<string, unknown>; text: string }> {
  const text = typeof given === "string" ? given : given && JSON.stringify(given);
  const answer = await request(`${world.apiUrl}/api/v1${path}`, {
    method,
    headers: { "x-api-key": environment["AGENTTIER_API_KEY"] ?? "", "content-type": "application/json", ...headers },
    ...(text !== undefined && { body: text }),
  });
  const answered = await answer.body.text();
  const isJson = answer.headers["content-type"]?.includes("json") === true;
  return {
    status: answer.statusCode,
    body: isJson ? (JSON.parse(answered) as Record<string, unknown>) : {},
    text: answered,
  };
}
