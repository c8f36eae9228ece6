import { setTimeout as delay } from "node:timers/promises";
import { request } from "undici";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
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
  /** Brings new sandboxes into the state. A state in transition suspends the controllers. */
  enter: (ids: readonly string[]) => Promise<unknown>;
  /** The state in lists; undefined: the sandbox is not in them. */
  listed: "running" | "paused" | undefined;
  /** Whether one sandbox does for all operations, because none of them changes it. */
  isFinal?: boolean;
  /** @default the id of a new sandbox */
  id?: string;
  expected: Record<Operation, Expected>;
}

/** (Source: the API's own description of E2B, and the behaviour of e2b-dev/infra at 54693ff3.) */
const states: Record<string, State> = {
  running: {
    enter: () => Promise.resolve(),
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
      network: [204],
      snapshot: [201],
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
    enter: () => Promise.resolve(),
    id: "0123456789abcdef0123456789abcdef",
    listed: undefined,
    isFinal: true,
    expected: allMissing(),
  },
};

describe.each(Object.entries(states))("a sandbox that is %s", (_, state) => {
  const { enter, listed, id: known, isFinal = false, expected } = state;
  const rows = Object.entries(expected) as [Operation, Expected][];

  it("is listed and described with that state", async () => {
    const id = known ?? (await create());
    await enter([id]);
    expect(await listedState(id)).toBe(listed);
    expect((await operations.get(id)).body["state"]).toBe(listed);
    await end(id);
  });

  if (isFinal) {
    it("answers each operation", async () => {
      const id = known ?? (await create());
      await enter([id]);
      for (const [operation, status] of rows)
        expect([operation, await answerTo(operation, id)]).toEqual([operation, status]);
      await end(id);
    });
    return;
  }

  let outcomes: ReadonlyMap<Operation, Expected>;
  beforeAll(async () => {
    const ids = await Promise.all(rows.map(create));
    try {
      await enter(ids);
      outcomes = await outcomesOf(rows.map(([operation, status], at) => ({ operation, status, id: ids[at] ?? "" })));
    } finally {
      await Promise.all(ids.map(end));
    }
  });
  it.each(rows)("answers %s with %j", (operation, status) => {
    expect(outcomes.get(operation)).toEqual(status);
  });
});

interface Call {
  operation: Operation;
  status: Expected;
  id: string;
}

/** The statuses of concurrent operations, each on another sandbox; in an array, one that came after the controllers had continued. */
async function outcomesOf(calls: readonly Call[]): Promise<Map<Operation, Expected>> {
  const outcomes = new Map<Operation, Expected>();
  const answers = calls.map(async ({ operation, id }) => {
    const waited = isSuspended;
    const answer = await answerTo(operation, id);
    outcomes.set(operation, waited && !isSuspended ? [answer] : answer);
  });
  if (isSuspended) {
    const immediate = answers.filter((_, at) => typeof calls[at]?.status === "number");
    // `kill` waits for a moment, up to 5 seconds. An operation that waits for the controllers has not answered after more than that.
    await Promise.all([...immediate, delay(7_000)]);
    continueControllers();
  }
  await Promise.all(answers);
  return outcomes;
}

async function answerTo(operation: Operation, id: string): Promise<number> {
  const { status, body } = await operations[operation](id);
  // E2B's SDKs for JavaScript decide by the body.
  if (status >= 400) expect(body["code"]).toBe(status);
  return status;
}

async function create(): Promise<string> {
  const { body } = await call("POST", "/sandboxes", { templateID: "base", timeout: 600 });
  return String(body["sandboxID"]);
}

async function paused(ids: readonly string[]): Promise<void> {
  await Promise.all(ids.map(operations.pause));
}

async function killed(ids: readonly string[]): Promise<void> {
  await Promise.all(ids.map(operations.kill));
  for (const id of ids)
    await until(async () => {
      expect(await objectOf(id)).toBe(undefined);
    });
}

async function pausing(ids: readonly string[]): Promise<void> {
  suspendControllers();
  for (const id of ids) void operations.pause(id);
  for (const id of ids)
    await until(async () => {
      expect((await objectOf(id))?.spec.paused).toBe(true);
    });
}

async function snapshotting(ids: readonly string[]): Promise<void> {
  const names = await Promise.all(ids.map(async (id) => (await objectOf(id))?.metadata.name));
  suspendControllers();
  for (const id of ids) void operations.snapshot(id);
  const checkpoints = world.client.of(checkpointKind);
  await until(async () => {
    const { items } = await checkpoints.list({ namespace: "default" });
    expect(items.map(({ spec }) => spec.sandboxName)).toEqual(expect.arrayContaining(names));
  });
  // The client API knows of it a moment later. A fork before that waits for the suspended controllers.
  for (const id of ids) {
    const fork = () => call("POST", `/sandboxes/${id}/fork`, { count: 1 }, AbortSignal.timeout(2_000));
    await until(async () => {
      expect((await fork()).status).toBe(409);
    });
  }
}

async function killing(ids: readonly string[]): Promise<void> {
  suspendControllers();
  await Promise.all(ids.map(operations.kill));
}

/** Like `expect.poll`, also before a test. */
function until(check: () => Promise<void>): Promise<void> {
  return vi.waitFor(check, { timeout: 20_000 });
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
  const sandboxes = world.client.of(sandboxKind);
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
