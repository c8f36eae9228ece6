import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { restoreFromAnnotations } from "../../src/api/names/labels.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { ClientWorld } from "./client-world.ts";

/**
 * Every operation of AgentTier's API in every state of a sandbox, over a real local cluster. A state in transition is held by suspending
 * the controllers. No answer to a mistake of a client is 500.
 */
let world: ClientWorld;
let apiKey: string;
let isSuspended = false;

beforeAll(async () => {
  world = await ClientWorld.open();
  ({ apiKey } = await world.connection());
  const template = { spec: { containers: [{ name: "main", image: "python", command: ["false"] }] } };
  const metadata = { namespace: world.namespace, name: "ends" };
  const { apiVersion, kind } = sandboxTemplateKind;
  await world.client.resource(refOf(sandboxTemplateKind)).create({ apiVersion, kind, metadata, spec: { template } });
});
afterEach(continueControllers);
afterAll(() => world.close());

const operations = {
  get: (id: string) => call("GET", `/sandboxes/${id}`),
  exec: (id: string) => call("POST", `/sandboxes/${id}/exec`, { command: "true" }),
  list: (id: string) => call("GET", `/sandboxes/${id}/files/?path=/tmp`),
  read: (id: string) => call("GET", `/sandboxes/${id}/files/etc/passwd`),
  write: (id: string) => call("PUT", `/sandboxes/${id}/files/workspace/file`, {}),
  archive: (id: string) => call("GET", `/sandboxes/${id}/archive`),
  ports: (id: string) => call("GET", `/sandboxes/${id}/ports`),
  forward: (id: string) => call("POST", `/sandboxes/${id}/ports`, { port: 80 }),
  invoke: (id: string) => call("POST", `/sandboxes/${id}/invoke`),
  configure: (id: string) => call("POST", `/sandboxes/${id}/configure`, { entrypoint: ["true"] }),
  cancel: (id: string) => call("POST", `/sandboxes/${id}/invoke/cancel`, { invokeId: "00" }),
  clone: (id: string) => call("POST", `/sandboxes/${id}/clone`),
  stop: (id: string) => call("POST", `/sandboxes/${id}/stop`),
  resume: (id: string) => call("POST", `/sandboxes/${id}/resume`),
  delete: (id: string) => call("DELETE", `/sandboxes/${id}`),
};
type Operation = keyof typeof operations;

interface State {
  /** Brings a sandbox into the state. */
  enter: (id: string) => Promise<unknown>;
  /** The status of the sandbox; undefined: it is not found. */
  status: string | undefined;
  /** The statuses of operations, in the order of the requests. The last one may change the state. */
  expected: Partial<Record<Operation, number>>;
}

const ofStopped = {
  exec: 409,
  list: 409,
  read: 409,
  write: 409,
  archive: 409,
  invoke: 409,
  configure: 409,
  cancel: 409,
};

const states: Record<string, State> = {
  creating: {
    enter: (id) => {
      suspendControllers();
      return create(id);
    },
    status: "Creating",
    expected: { get: 200, ...ofStopped, ports: 200, forward: 201, clone: 400, resume: 409, stop: 409, delete: 204 },
  },
  running: {
    enter: running,
    status: "Running",
    expected: {
      get: 200,
      exec: 200,
      list: 200,
      read: 200,
      write: 201,
      archive: 200,
      ports: 200,
      forward: 201,
      invoke: 424,
      configure: 200,
      cancel: 404,
      resume: 409,
      clone: 202,
      stop: 200,
    },
  },
  stopping: {
    enter: async (id) => {
      await running(id);
      suspendControllers();
      void operations.stop(id);
      await until(async () => {
        expect((await operations.exec(id)).status).toBe(409);
      });
    },
    status: "Running",
    expected: { get: 200, ...ofStopped, clone: 409, resume: 409 },
  },
  stopped: {
    enter: async (id) => {
      await running(id);
      await operations.stop(id);
    },
    status: "Stopped",
    expected: { get: 200, ...ofStopped, ports: 200, forward: 201, stop: 409, clone: 202, resume: 200 },
  },
  ended: {
    enter: async (id) => {
      await create(id, "ends");
      await untilStatus(id, "Error");
    },
    status: "Error",
    expected: { get: 200, ...ofStopped, ports: 200, stop: 409, resume: 409, clone: 400, delete: 204 },
  },
  deleting: {
    enter: async (id) => {
      await running(id);
      suspendControllers();
      await operations.delete(id);
    },
    status: "Deleting",
    expected: { get: 200, ...ofStopped, ports: 200, stop: 409, resume: 409, clone: 409, delete: 204 },
  },
  deleted: {
    enter: async (id) => {
      await running(id);
      await operations.delete(id);
      // The answer comes after a moment, also if the programs are still ending.
      await untilStatus(id, undefined);
    },
    status: undefined,
    expected: allMissing(),
  },
  "not known": { enter: () => Promise.resolve(), status: undefined, expected: allMissing() },
};

describe.each(Object.entries(states))("a sandbox that is %s", (name, { enter, status, expected }) => {
  it("answers each operation", async () => {
    const id = name.replace(" ", "-");
    await enter(id);
    expect((await operations.get(id)).body["status"]).toBe(status);
    for (const [operation, wanted] of Object.entries(expected) as [Operation, number][]) {
      const answer = await operations[operation](id);
      expect([operation, answer.status, answer.body["error"]]).toEqual([
        operation,
        wanted,
        wanted < 400 ? undefined : expect.any(String),
      ]);
    }
  });
});

describe("requests that are not valid", () => {
  it.each([
    ["a name that is no label", { name: "A_b", templateRef: { name: "python" } }, 400],
    ["no template", { name: "a" }, 400],
    ["an unknown template", { name: "a", templateRef: { name: "missing" } }, 404],
    ["a namespace of others", { name: "a", namespace: "other", templateRef: { name: "python" } }, 400],
    ["a time that is none", { name: "a", templateRef: { name: "python" }, timeout: "soon" }, 400],
    ["no time", { name: "a", templateRef: { name: "python" }, timeout: "0s" }, 400],
    ["an idle timeout", { name: "a", templateRef: { name: "python" }, idleTimeout: "30m" }, 501],
    ["a size that is none", { name: "a", templateRef: { name: "python" }, storage: { size: "large" } }, 400],
    ["a snapshot on stop", { name: "a", templateRef: { name: "python" }, storage: { snapshotOnStop: true } }, 501],
    ["a shared volume", { name: "a", templateRef: { name: "python" }, storage: { shared: true } }, 501],
  ])("to create with %s", async (_, body, status) => {
    const answer = await call("POST", "/sandboxes", body);
    expect([answer.status, answer.body["error"]]).toEqual([status, expect.any(String)]);
  });

  it.each([
    ["GET", "/sandboxes/UPPER", 404],
    ["GET", `/sandboxes/${"a".repeat(400)}`, 404],
    ["GET", "/sandboxes/..%2f..%2fsecrets", 404],
    ["PATCH", "/sandboxes/a", 501],
    ["POST", "/sandboxes/bulk", 501],
    ["GET", "/sandboxes/a/backups", 501],
    ["POST", "/templates", 501],
    ["GET", "/user/api-keys", 501],
    ["GET", "/governance/policies", 501],
    ["GET", "/missing", 404],
  ] as const)("%s %s", async (method, path, status) => {
    const answer = await call(method, path);
    expect([answer.status, answer.body["error"]]).toEqual([status, expect.any(String)]);
  });

  it("have no valid key", async () => {
    const answer = await call("GET", "/sandboxes", undefined, "wrong");
    expect([answer.status, answer.body["error"]]).toEqual([401, expect.any(String)]);
  });

  it("exceed the limit of sandboxes of the key", async () => {
    const key = await world.createKey("limited", "agent", { sandboxes: 0 });
    const body = { name: "a", templateRef: { name: "python" } };
    await world.client.resource(refOf(sandboxTemplateKind)).create({
      apiVersion: sandboxTemplateKind.apiVersion,
      kind: "SandboxTemplate",
      metadata: { namespace: "limited", name: "python" },
      spec: { template: { spec: { containers: [{ name: "main", image: "python" }] } } },
    });
    const answer = await call("POST", "/sandboxes", body, key);
    expect([answer.status, answer.body["error"]]).toEqual([403, "policy_violation"]);
  });

  it("repeat a name", async () => {
    await running("twice");
    expect((await call("POST", "/sandboxes", { name: "twice", templateRef: { name: "python" } })).status).toBe(409);
  });
});

it("shows why a clone cannot start", async () => {
  const { apiVersion, kind } = sandboxKind;
  await world.client.resource(refOf(sandboxKind)).create({
    apiVersion,
    kind,
    metadata: { namespace: world.namespace, name: "lost", annotations: { [restoreFromAnnotations[0]]: "missing" } },
    spec: {},
  });
  await untilStatus("lost", "Error");
  expect((await operations.get("lost")).body["message"]).toContain("missing");
});

it("answers probes without a key", async () => {
  for (const path of ["/healthz", "/readyz"]) {
    const answer = await request(`${world.apiUrl}${path}`);
    expect([answer.statusCode, await answer.body.text()]).toEqual([200, "ok"]);
  }
});

it("creates a sandbox of a set with the requested name, also with a volume", async () => {
  await world.createSet("set", 1);
  await call("POST", "/sandboxes", { name: "of-set", templateRef: { name: "set" }, storage: { size: "100Mi" } });
  await untilStatus("of-set", "Running");
  expect((await operations.get("of-set")).body).toMatchObject({ templateRef: "set", pvcName: "workspace-of-set" });
  const written = await call("POST", "/sandboxes/of-set/exec", { command: "grep ' /workspace ' /proc/mounts" });
  expect(written.body["exitCode"]).toBe(0);
});

it("clones a sandbox with its volume, running and stopped", async () => {
  const run = (id: string, command: string) => call("POST", `/sandboxes/${id}/exec`, { command });
  await run("of-set", "echo kept > /workspace/note");
  expect((await call("POST", "/sandboxes/of-set/clone", { name: "cloned" })).status).toBe(202);
  await untilStatus("cloned", "Running");
  expect((await operations.get("cloned")).body).toMatchObject({ clonedFrom: "of-set", pvcName: "workspace-cloned" });
  await run("of-set", "echo changed > /workspace/note");
  expect((await run("cloned", "cat /workspace/note")).body["stdout"]).toBe("kept\n");
  await operations.stop("of-set");
  await untilStatus("of-set", "Stopped");
  expect((await call("POST", "/sandboxes/of-set/clone", { name: "of-stopped" })).status).toBe(202);
  await untilStatus("of-stopped", "Running");
  expect((await run("of-stopped", "cat /workspace/note")).body["stdout"]).toBe("changed\n");
});

async function create(id: string, template = "python"): Promise<void> {
  const { status } = await call("POST", "/sandboxes", { name: id, templateRef: { name: template } });
  expect(status).toBe(201);
}

async function running(id: string): Promise<void> {
  await create(id);
  await untilStatus(id, "Running");
}

/** @param status undefined: it is not found */
function untilStatus(id: string, status: string | undefined): Promise<void> {
  return until(async () => {
    expect((await operations.get(id)).body["status"]).toBe(status);
  });
}

/** Like `expect.poll`, also before a test. */
function until(check: () => Promise<void>): Promise<void> {
  return vi.waitFor(check, { timeout: 30_000, interval: 100 });
}

function suspendControllers(): void {
  process.kill(world.cluster.pid("controller"), "SIGSTOP");
  isSuspended = true;
}

function continueControllers(): void {
  if (isSuspended) process.kill(world.cluster.pid("controller"), "SIGCONT");
  isSuspended = false;
}

function allMissing(): State["expected"] {
  return Object.fromEntries(Object.keys(operations).map((operation) => [operation, 404]));
}

async function call(
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  body?: object,
  key = apiKey,
): Promise<{ status: number; body: Record<string, unknown> }> {
  const answer = await request(`${world.apiUrl}/api/v1${path}`, {
    method,
    headers: { "x-api-key": key, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.body.text();
  const isJson = answer.headers["content-type"]?.includes("json") === true;
  return { status: answer.statusCode, body: isJson ? (JSON.parse(text) as Record<string, unknown>) : {} };
}
