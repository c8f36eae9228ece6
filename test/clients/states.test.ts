import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { refOf } from "../../src/kube/resource-ref.ts";
import { ClientWorld } from "./client-world.ts";

/**
 * Every operation of E2B's API in every state of a sandbox, over a real local cluster. A state in transition is held by suspending the
 * controllers, so that an operation that answers meanwhile has not waited for its end.
 */
let world: ClientWorld;
let apiKey: string;
let isSuspended = false;

beforeAll(async () => {
  world = await ClientWorld.open();
  ({ apiKey } = await world.connection());
});
afterEach(continueControllers);
afterAll(() => world.close());

const operations = {
  get: (id: string) => call("GET", `/sandboxes/${id}`),
  connect: (id: string) => call("POST", `/sandboxes/${id}/connect`, { timeout: 300 }),
  resume: (id: string) => call("POST", `/sandboxes/${id}/resume`, { timeout: 300 }),
  pause: (id: string) => call("POST", `/sandboxes/${id}/pause`, {}),
  timeout: (id: string) => call("POST", `/sandboxes/${id}/timeout`, { timeout: 600 }),
  refreshes: (id: string) => call("POST", `/sandboxes/${id}/refreshes`, { duration: 600 }),
  network: (id: string) => call("PUT", `/sandboxes/${id}/network`, { denyOut: ["192.0.2.0/24"] }),
  snapshot: (id: string) => call("POST", `/sandboxes/${id}/snapshots`, {}),
  fork: (id: string) => call("POST", `/sandboxes/${id}/fork`, { count: 1 }),
  kill: (id: string) => call("DELETE", `/sandboxes/${id}`),
};
type Operation = keyof typeof operations;

/** A status; in an array, one that comes only after the transition has ended. */
type Expected = number | [number];

interface State {
  /** Brings a new sandbox into the state. */
  enter: () => Promise<string>;
  /** What lists show; undefined: the sandbox is not in them. */
  listed: "running" | "paused" | undefined;
  /** Whether one sandbox does for all operations, because none of them changes it. */
  isFinal?: boolean;
  expected: Record<Operation, Expected>;
}

/** (Source: the API's own description of E2B, and the behaviour of e2b-dev/infra at 54693ff3.) */
const states: Record<string, State> = {
  running: {
    enter: create,
    listed: "running",
    expected: {
      get: 200,
      connect: 200,
      resume: 409,
      pause: 204,
      timeout: 204,
      refreshes: 204,
      network: 204,
      snapshot: 201,
      fork: 201,
      kill: 204,
    },
  },
  pausing: {
    enter: pausing,
    listed: "paused",
    expected: {
      get: 200,
      connect: [201],
      resume: [201],
      pause: [204],
      timeout: 409,
      refreshes: 409,
      network: 409,
      snapshot: 409,
      fork: 409,
      // It does not wait for the pause, which ends first.
      kill: 204,
    },
  },
  paused: {
    enter: paused,
    listed: "paused",
    expected: {
      get: 200,
      connect: 201,
      resume: 201,
      pause: 409,
      timeout: 409,
      refreshes: 409,
      network: 409,
      snapshot: 404,
      fork: 409,
      kill: 204,
    },
  },
  snapshotting: {
    enter: snapshotting,
    listed: "running",
    expected: {
      get: 200,
      connect: [200],
      resume: 409,
      pause: [204],
      timeout: 204,
      refreshes: 204,
      network: 204,
      snapshot: [409],
      fork: 409,
      kill: 204,
    },
  },
  killing: {
    enter: killing,
    listed: undefined,
    isFinal: true,
    expected: {
      get: 404,
      connect: 409,
      resume: 404,
      pause: 404,
      timeout: 404,
      refreshes: 404,
      network: 404,
      snapshot: 409,
      fork: 409,
      kill: 204,
    },
  },
  killed: { enter: killed, listed: undefined, isFinal: true, expected: allMissing() },
  unknown: {
    enter: () => Promise.resolve("0123456789abcdef0123456789abcdef"),
    listed: undefined,
    isFinal: true,
    expected: allMissing(),
  },
};

describe.each(Object.entries(states))("a sandbox that is %s", (_, { enter, listed, isFinal = false, expected }) => {
  const rows = Object.entries(expected) as [Operation, Expected][];

  it("is listed and described with that state", async () => {
    const id = await enter();
    expect(await listedState(id)).toBe(listed);
    expect((await operations.get(id)).body["state"]).toBe(listed);
    await end(id);
  });

  if (isFinal) {
    it("answers each operation", async () => {
      const id = await enter();
      for (const [operation, status] of rows)
        expect([operation, await outcome(operation, id)]).toEqual([operation, status]);
      await end(id);
    });
  } else {
    it.each(rows)("answers %s with %j", async (operation, status) => {
      const id = await enter();
      expect(await outcome(operation, id)).toEqual(status);
      await end(id);
    });
  }
});

/** The status of an operation; in an array, if it came only after the controllers had continued. */
async function outcome(operation: Operation, id: string): Promise<Expected> {
  let answered: number | undefined;
  const answer = operations[operation](id).then(({ status, body }) => {
    answered = status;
    // E2B's SDKs for JavaScript decide by the body.
    if (status >= 400) expect(body["code"]).toBe(status);
    return status;
  });
  if (!isSuspended) return answer;
  // An operation that does not wait for the controllers answers after at most 5 seconds: `kill` waits for a moment.
  await Promise.race([answer, meanwhile(id)]);
  if (answered !== undefined) return answered;
  continueControllers();
  return [await answer];
}

/** Runs other operations for longer than any that does not wait takes. */
async function meanwhile(id: string): Promise<void> {
  for (const until = Date.now() + 7_000; Date.now() < until;) await operations.get(id);
}

async function create(): Promise<string> {
  const { body } = await call("POST", "/sandboxes", { templateID: "base", timeout: 600 });
  return String(body["sandboxID"]);
}

async function paused(): Promise<string> {
  const id = await create();
  await operations.pause(id);
  return id;
}

async function killed(): Promise<string> {
  const id = await create();
  await operations.kill(id);
  await expect.poll(() => objectOf(id)).toBe(undefined);
  return id;
}

async function pausing(): Promise<string> {
  const id = await create();
  suspendControllers();
  void operations.pause(id);
  await expect.poll(async () => (await objectOf(id))?.spec.paused).toBe(true);
  return id;
}

async function snapshotting(): Promise<string> {
  const id = await create();
  const name = (await objectOf(id))?.metadata.name;
  suspendControllers();
  void operations.snapshot(id);
  const checkpoints = world.client.resource(refOf(checkpointKind), (value) => Checkpoint.parse(value));
  const isCapturing = async () =>
    (await checkpoints.list({ namespace: "default" })).items.some(({ spec }) => spec.sandboxName === name);
  await expect.poll(isCapturing).toBe(true);
  // The client API knows of it a moment later. A fork before that waits for the suspended controllers.
  const fork = () => call("POST", `/sandboxes/${id}/fork`, { count: 1 }, AbortSignal.timeout(2_000));
  await expect.poll(async () => (await fork()).status).toBe(409);
  return id;
}

async function killing(): Promise<string> {
  const id = await create();
  suspendControllers();
  await operations.kill(id);
  return id;
}

async function end(id: string): Promise<void> {
  continueControllers();
  await operations.kill(id);
}

function suspendControllers(): void {
  process.kill(world.cluster.pid("controller"), "SIGSTOP");
  isSuspended = true;
}

function continueControllers(): void {
  if (isSuspended) process.kill(world.cluster.pid("controller"), "SIGCONT");
  isSuspended = false;
}

async function objectOf(id: string): Promise<Sandbox | undefined> {
  const sandboxes = world.client.resource(refOf(sandboxKind), (value) => Sandbox.parse(value));
  const { items } = await sandboxes.list({ namespace: "default" });
  return items.find(({ metadata }) => metadata.uid.replaceAll("-", "") === id);
}

async function listedState(id: string): Promise<unknown> {
  const { list } = await call("GET", "/v2/sandboxes");
  return list.find(({ sandboxID }) => sandboxID === id)?.["state"];
}

type Body = Record<string, unknown>;

async function call(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: object, signal?: AbortSignal) {
  const answer = await request(`${world.apiUrl}${path}`, {
    method,
    ...(signal && { signal }),
    headers: { "x-api-key": apiKey, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.body.text();
  const parsed: unknown = text === "" ? {} : JSON.parse(text);
  return { status: answer.statusCode, body: parsed as Body, list: Array.isArray(parsed) ? (parsed as Body[]) : [] };
}

function allMissing(): Record<Operation, number> {
  const missing = 404;
  return {
    get: missing,
    connect: missing,
    resume: missing,
    pause: missing,
    timeout: missing,
    refreshes: missing,
    network: missing,
    snapshot: missing,
    fork: missing,
    kill: missing,
  };
}
