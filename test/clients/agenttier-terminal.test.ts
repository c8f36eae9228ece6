import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { WebSocket } from "ws";
import { ClientWorld } from "./client-world.ts";

/** The terminal of AgentTier's web interface, over a real local cluster. */
let world: ClientWorld;
let key: string;

beforeAll(async () => {
  world = await ClientWorld.shared("agenttier-terminal");
  key = await world.createKey(world.namespace, "agent");
  await fetch(`${world.apiUrl}/api/v1/sandboxes`, {
    method: "POST",
    headers: { "x-api-key": key },
    body: JSON.stringify({ name: "shell", templateRef: { name: "python" } }),
  });
  await vi.waitFor(
    async () => {
      const answer = await fetch(`${world.apiUrl}/api/v1/sandboxes/shell`, { headers: { "x-api-key": key } });
      expect(await answer.json()).toMatchObject({ status: "Running" });
    },
    { timeout: 30_000, interval: 100 },
  );
});
afterAll(() => world.close());

it.each([
  ["the header X-API-Key", () => ({ query: "", headers: { "x-api-key": key } })],
  ["a bearer token", () => ({ query: "", headers: { authorization: `Bearer ${key}` } })],
  ["the query", () => ({ query: `?token=${key}`, headers: {} })],
])("runs a shell for a client that sends its key in %s", async (_, credentials) => {
  const { query, headers } = credentials();
  // The gateway proxies it to the client API.
  const socket = new WebSocket(`${world.sandboxUrl.replace("http", "ws")}/ws/terminal/shell${query}`, { headers });
  const messages: { type: string; data?: string; code?: number; message?: string }[] = [];
  const closed = Promise.withResolvers<undefined>();
  socket.on("message", (data: Buffer) => {
    messages.push(JSON.parse(data.toString("utf8")) as (typeof messages)[number]);
  });
  socket.on("close", () => {
    closed.resolve(undefined);
  });
  await new Promise((resolve) => socket.once("open", resolve));
  const send = (message: object) => {
    socket.send(JSON.stringify(message));
  };
  send({ type: "ping" });
  send({ type: "resize", cols: 101, rows: 33 });
  send({ type: "unknown" });
  send({ type: "input", data: "stty size; echo ü-$((1 + 1)); exit 5\n" });
  await closed.promise;
  const output = messages.map(({ data = "" }) => data).join("");
  expect(output).toContain("33 101");
  expect(output).toContain("ü-2");
  expect(messages).toContainEqual({ type: "pong" });
  expect(messages.find(({ type }) => type === "error")?.message).toContain("not valid");
  expect(messages.at(-1)).toEqual({ type: "close", code: 5 });
});

it.each([
  ["a wrong key", "/ws/terminal/shell?token=wrong", 401],
  ["an unknown sandbox", "/ws/terminal/missing", 404],
  ["another path", "/ws/other", 404],
])("refuses %s", async (_, path, status) => {
  const socket = new WebSocket(`${world.apiUrl.replace("http", "ws")}${path}`, {
    headers: path.includes("token") ? {} : { "x-api-key": key },
  });
  const refused = await new Promise<number | undefined>((resolve) => {
    socket.once("unexpected-response", (_request, response) => {
      response.resume();
      resolve(response.statusCode);
    });
  });
  expect(refused).toBe(status);
});
