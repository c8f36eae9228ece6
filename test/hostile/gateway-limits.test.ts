import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { makeNamespace } from "../setup/namespace.ts";
import { GatewayWorld, type GatewayProcess, head, namespace, type RawConnection, upgrade } from "./gateway-world.ts";

/** Floods of connections at the built gateway. All clients are on this machine, with different loopback addresses. */
let world: GatewayWorld;
let gateway: GatewayProcess;

const port = 8000;
const otherNamespace = "other";
const served = /^HTTP\/1.1 200 /;
const refused = /^HTTP\/1.1 503 .*Retry-After: \d+\r\n.*"reason":"Unavailable"/is;

beforeAll(async () => {
  world = await GatewayWorld.open();
  await makeNamespace(world.client, otherNamespace);
  for (const [name, inNamespace] of [
    ["a", namespace],
    ["b", namespace],
    ["c", otherNamespace],
  ] as const) {
    await world.sandbox(
      name,
      (stream) => {
        stream.once("data", (request: Buffer) => {
          if (request.includes("Upgrade: websocket")) {
            stream.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
            stream.resume().once("end", () => stream.end());
          } else stream.end(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${request.toString()}`);
        });
      },
      { publicPorts: [port], inNamespace },
    );
  }
});
afterEach(() => gateway.child.kill());
afterAll(() => world.close());

/** Sends a request of a new client. */
const ask = (from: string, sandbox = "a", more: string[] = [], inNamespace = namespace): Promise<string> =>
  gateway.exchange(head(sandbox, port, ["Connection: close", ...more], inNamespace), from);

/** Opens an upgraded connection, and keeps it. */
async function hold(from: string, sandbox = "a", more: string[] = []): Promise<RawConnection> {
  const connection = await gateway.connect(from);
  connection.socket.write(head(sandbox, port, [...upgrade, ...more]));
  await connection.until("HTTP/1.1 101");
  return connection;
}

async function openSilent(from: string, count: number): Promise<RawConnection[]> {
  return Promise.all(Array.from({ length: count }, () => gateway.connect(from)));
}

it("closes connections that send nothing, or a request that never ends", async () => {
  gateway = await world.startGateway();
  const [silent, slow, later] = await Promise.all([gateway.connect(), gateway.connect(), gateway.connect()]);
  later.socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  await later.until("ok\n");
  later.socket.write("GET /healthz HTTP/1.1\r\n");
  const dripping = setInterval(() => slow.socket.write("G"), 500);
  await Promise.all([silent.closed, slow.closed, later.closed]);
  clearInterval(dripping);
  // The parser rejects the slow request earlier.
  expect(await gateway.metric('ramet_gateway_refusals_total{reason="timeout"}')).toBeGreaterThanOrEqual(2);
});

it("refuses a client with too many connections, and serves others", async () => {
  gateway = await world.startGateway(["--max-connections-per-client", "5"]);
  const open = await openSilent("127.0.0.2", 5);
  expect(await gateway.exchange("", "127.0.0.2")).toMatch(refused);
  expect(await ask("127.0.0.3")).toMatch(served);
  expect(await gateway.metric('ramet_gateway_refusals_total{reason="client"}')).toBe(1);
  open[0]?.socket.destroy();
  await expect.poll(() => ask("127.0.0.2")).toMatch(served);
});

it("refuses the bodies of a client that has too many bytes in flight, and serves its other requests", async () => {
  let forwarded = 0;
  await world.sandbox("silent", (stream) => (forwarded++, stream.resume()), { publicPorts: [port] });
  gateway = await world.startGateway(["--max-connections-per-sandbox", "2000"]);
  const post = head("silent", port, ["Transfer-Encoding: chunked"]).replace("GET", "POST");
  const open: RawConnection[] = [];
  const answered = () => open.map(({ received }) => received).filter((received) => received !== "");
  // More simultaneous connections than a backlog has room for would test the kernel.
  while (open.length < 1_600) {
    const next = await openSilent("127.0.0.2", 100);
    for (const { socket } of next) socket.write(post);
    open.push(...next);
    await expect.poll(() => forwarded + answered().length).toBe(open.length);
  }
  const answers = answered();
  expect(answers.length).toBe(64);
  for (const answer of answers)
    expect(answer).toMatch(/^HTTP\/1.1 429 .*Retry-After: 1\r\n.*too many bytes in flight/is);
  expect(await ask("127.0.0.2")).toMatch(served);
  const other = await gateway.connect("127.0.0.3");
  other.socket.write(post);
  for (const { socket } of open) socket.destroy();
  await expect.poll(() => ask("127.0.0.2", "a", ["Content-Length: 0"])).toMatch(served);
  expect(other.received).toBe("");
});

it("refuses new connections with 503 before it reaches its limit, and accepts them again afterwards", async () => {
  gateway = await world.startGateway(["--max-connections", "20"]);
  const held = await hold("127.0.0.2");
  const open = await openSilent("127.0.0.2", 17);
  expect(await gateway.exchange("", "127.0.0.3")).toMatch(refused);
  expect(await gateway.metric('ramet_gateway_refusals_total{reason="overload"}')).toBe(1);
  expect(held.socket.closed).toBe(false);
  for (const { socket } of open) socket.destroy();
  await expect.poll(() => ask("127.0.0.3")).toMatch(served);
});

it("limits upgraded connections for each sandbox and namespace, and serves the others", async () => {
  gateway = await world.startGateway(["--max-connections-per-sandbox", "2", "--max-connections-per-namespace", "3"]);
  const [first] = [await hold("127.0.0.2"), await hold("127.0.0.3")];
  expect(await ask("127.0.0.4")).toMatch(refused);
  const other = await hold("127.0.0.4", "b");
  expect(await ask("127.0.0.4", "b")).toMatch(refused);
  expect(await ask("127.0.0.4", "c", [], otherNamespace)).toMatch(served);
  expect(await gateway.metric('ramet_gateway_refusals_total{reason="sandbox"}')).toBe(1);
  expect(await gateway.metric('ramet_gateway_refusals_total{reason="namespace"}')).toBe(1);
  other.socket.destroy();
  await expect.poll(() => ask("127.0.0.4", "b")).toMatch(served);
  first.socket.destroy();
  await expect.poll(() => ask("127.0.0.4")).toMatch(served);
});

it("counts clients behind a trusted proxy by X-Forwarded-For, which no other client can forge", async () => {
  const proxy = "127.0.0.9";
  gateway = await world.startGateway(["--trusted-proxy", `${proxy}/32`, "--max-connections-per-client", "2"]);
  const of = (client: string) => [`X-Forwarded-For: ${client}`];
  await hold(proxy, "a", of("192.0.2.1"));
  await hold(proxy, "a", of("198.51.100.1, 192.0.2.1"));
  expect(await ask(proxy, "a", of("203.0.113.1, 192.0.2.1"))).toMatch(refused);
  expect(await ask(proxy, "a", of("192.0.2.2"))).toMatch(served);
  // An IPv6 client usually has a whole /64 network.
  await hold(proxy, "a", of("2001:db8::1"));
  await hold(proxy, "a", of("2001:db8:0:0:1::2"));
  expect(await ask(proxy, "a", of("2001:db8::3"))).toMatch(refused);
  expect(await ask(proxy, "a", of("2001:db8:0:1::3"))).toMatch(served);

  await hold("127.0.0.2", "b", of("192.0.2.7"));
  const response = await ask("127.0.0.2", "b", of("192.0.2.8"));
  expect(response).toMatch(served);
  expect(response).toContain("X-Forwarded-For: 127.0.0.2\r\n");
  await hold("127.0.0.2", "b", of("192.0.2.9"));
  expect(await gateway.exchange("", "127.0.0.2")).toMatch(refused);
});
