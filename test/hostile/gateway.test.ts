import { type Duplex, PassThrough } from "node:stream";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { GatewayWorld, head, upgrade, type GatewayProcess, type RawConnection } from "./gateway-world.ts";

/** Hostile clients and hostile sandboxes at the built gateway. Each test ends with a neighbour that is still served. */
let world: GatewayWorld;
let gateway: GatewayProcess;
let held: RawConnection;

/** A port of a program that answers requests with 200, and echoes on upgraded connections. */
const honestPort = 8000;
const firstHostilePort = 10_000;
const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/** Answers of a hostile program that no HTTP client may see. */
const hostileAnswers = [
  "HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 099 x\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 1000 x\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 -1 x\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 200 OK\r\nX-A: a\u0000b\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 200 OK\r\nX-A: a\u007fb\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 200 OK\r\nX A: a\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 0\r\n\r\n",
  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
  `HTTP/1.1 200 OK\r\nX-A: ${"a".repeat(1 << 20)}\r\n\r\n`,
  "HTTP/9.9 200 OK\r\n\r\n",
  "SSH-2.0-OpenSSH_9.9\r\n",
  "\u0000\u0001\u0002\u0003",
];

/** Answers with an allowed status and a reason that the gateway must not pass on. */
const hostileReasons = ["a\u0001b", "a\u007fb", "\u00e9", "a\tb", "", "x".repeat(1000)].map(
  (reason) => `HTTP/1.1 200 ${reason}\r\nContent-Length: 2\r\n\r\nok`,
);

/** Answers to a request for an upgrade that are no upgrade. */
const falseUpgrades = ["HTTP/1.1 101 x\r\n\r\n", "HTTP/1.1 101 x\r\nUpgrade: a\r\n\r\n", "HTTP/1.1 103 x\r\n\r\n"];

const hostile = [...hostileAnswers, ...hostileReasons, ...falseUpgrades];
const portOf = (answer: string) => firstHostilePort + hostile.indexOf(answer);
/** The port of each connection to the hostile sandbox. */
const connected: number[] = [];

beforeAll(async () => {
  world = await GatewayWorld.open();
  await world.sandbox("honest", honest, { publicPorts: [honestPort, 49983] });
  await world.sandbox("slow", (stream) => stream.once("data", () => slow.write(stream)), { publicPorts: [honestPort] });
  await world.sandbox(
    "hostile",
    (stream, port) => {
      connected.push(port);
      stream.once("data", () => stream.end(hostile[port - firstHostilePort], "latin1"));
    },
    { publicPorts: hostile.map(portOf) },
  );
});
afterAll(() => world.close());
beforeEach(async () => {
  gateway = await world.startGateway();
  held = await openEcho();
});
/** Nothing that an attacker did has ended the process or the connections of others. */
afterEach(async () => {
  held.socket.write("still");
  await held.until("still");
  expect(await gateway.exchange(head("honest", honestPort, ["Connection: close"]))).toMatch(
    /^HTTP\/1.1 200 .*honest$/s,
  );
  await gateway.child.kill();
});

/** The connections of the sandbox `slow`, which answers when a test does. */
const slow = new PassThrough({ objectMode: true });
const answers = slow[Symbol.asyncIterator]() as AsyncIterator<Duplex>;

function honest(stream: Duplex): void {
  stream.once("data", (request: Buffer) => {
    if (request.includes("Upgrade: websocket")) {
      stream.write(switching);
      stream.pipe(stream);
    } else stream.end("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nhonest");
  });
}

async function openEcho(): Promise<RawConnection> {
  const connection = await gateway.connect();
  connection.socket.write(head("honest", honestPort, upgrade));
  await connection.until("\r\n\r\n");
  return connection;
}

const statusOf = (response: string): number => Number(/^HTTP\/1.1 (\d{3}) /.exec(response)?.[1]);

it("survives an upgrade that is pipelined behind a request that was not answered yet", async () => {
  const own = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
  const slow = head("honest", honestPort);
  const toNothing = `GET / HTTP/1.1\r\nHost: x\r\n${upgrade.join("\r\n")}\r\n\r\n`;
  const toSandbox = head("honest", honestPort, upgrade);
  for (const first of [own, slow, own + own, slow + slow]) {
    for (const second of [toNothing, toSandbox, toSandbox + own]) await gateway.exchange(first + second);
  }
});

it("refuses a request with two hosts", async () => {
  const request = head("honest", honestPort, ["Host: other", "Connection: close"]);
  expect(request.match(/^host:/gim)).toHaveLength(2);
  expect(statusOf(await gateway.exchange(request))).toBe(400);
});

it("answers pipelined requests in order, and closes the connection of a client that pipelines many", async () => {
  const [next, last] = [head("honest", honestPort), head("honest", honestPort, ["Connection: close"])];
  expect((await gateway.exchange(next + next + last)).match(/HTTP\/1.1 200/g)).toHaveLength(3);
  expect(await gateway.exchange(next.repeat(1000))).toBe("");
});

it("survives clients that send no HTTP, or CONNECT, or an upgrade with a body, and leave", async () => {
  const withBody = head("honest", honestPort, [...upgrade, "Content-Length: 100"]);
  const chunked = head("honest", honestPort, [...upgrade, "Transfer-Encoding: chunked"]);
  const attacks = [
    "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n",
    "CONNECT sandbox:80 HTTP/1.1\r\nHost: sandbox:80\r\n\r\n",
    `GET / HTTP/1.1\r\nHost: x\r\nX-A: ${"a".repeat(1 << 16)}\r\n\r\n`,
    "GET /%00 HTTP/1.1\r\nHost: 8000-%00--x.y\r\nConnection: close\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: x\r\nExpect: 200-maybe\r\nConnection: close\r\n\r\n",
    withBody,
    chunked,
    `${withBody}${"b".repeat(100)}`,
  ];
  for (const attack of attacks) {
    expect(await gateway.exchange(attack)).toMatch(/^(HTTP\/1.1 4\d\d .*)?$/s);
    const leaving = await gateway.connect();
    leaving.socket.write(attack, "latin1");
    leaving.socket.resetAndDestroy();
    await leaving.closed;
  }
});

it("answers 502 once for each invalid response of a sandbox, to requests and to upgrades", async () => {
  for (const answer of hostileAnswers) {
    for (const more of [["Connection: close"], upgrade]) {
      const response = await gateway.exchange(head("hostile", portOf(answer), more));
      expect([answer.slice(0, 60), statusOf(response)]).toEqual([answer.slice(0, 60), 502]);
      expect(response).toContain('"reason":"SandboxUnreachable"');
    }
  }
});

it("opens no connection for a moment to a port that sends one invalid response after the other", async () => {
  for (const answer of [hostileAnswers[1], hostileAnswers[8]]) {
    const request = head("hostile", portOf(answer ?? ""), ["Connection: close"]);
    connected.length = 0;
    // Requests that are in progress together all get their response. On a slow machine, a pause ends in between.
    for (let turn = 0; turn < 10; turn++) {
      const responses = await Promise.all(Array.from({ length: 10 }, () => gateway.exchange(request)));
      expect(responses.map(statusOf)).toEqual(Array.from({ length: 10 }, () => 502));
    }
    expect(connected.length).toBeLessThan(60);
  }
});

it("replaces the reason phrase of a sandbox's response", async () => {
  for (const answer of hostileReasons) {
    for (const more of [["Connection: close"], upgrade]) {
      const response = await gateway.exchange(head("hostile", portOf(answer), more));
      expect(response).toMatch(/^HTTP\/1.1 200 OK\r\n.*ok$/s);
    }
  }
});

it("answers 502 when a sandbox switches protocols without a request for it, or ends after an interim response", async () => {
  for (const answer of falseUpgrades) {
    for (const more of [["Connection: close"], upgrade]) {
      expect(statusOf(await gateway.exchange(head("hostile", portOf(answer), more)))).toBe(502);
    }
  }
});

it("gives no sandbox a host name that a sandbox in another namespace can have", async () => {
  // After t--b/c was deleted, t/b--c would get the cookies of its users.
  await world.sandbox("b--c", honest, { publicPorts: [honestPort] });
  expect(statusOf(await gateway.exchange(head("b--c", honestPort, ["Connection: close"])))).toBe(400);
});

it("proxies no upgrade to the port of the guest, which would hide the paths of further requests", async () => {
  for (const protocol of ["h2c", "websocket"]) {
    const more = ["Connection: Upgrade", `Upgrade: ${protocol}`];
    expect(statusOf(await gateway.exchange(head("honest", 49983, more)))).toBe(403);
  }
  expect(statusOf(await gateway.exchange(head("honest", 49983, ["Connection: close"])))).toBe(200);
});

it("finishes requests in progress after an exception that nothing caught, and exits with an error", async () => {
  const script = 'process.on("SIGUSR2", () => { throw new Error("thrown by the test") })';
  const failing = await world.startGateway([], {
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}`,
  });
  const waiting = await failing.connect();
  waiting.socket.write(head("slow", honestPort, ["Connection: close"]));
  const { value: answer } = (await answers.next()) as IteratorYieldResult<Duplex>;
  process.kill(failing.child.pid, "SIGUSR2");
  await expect.poll(() => failing.log()).toMatch(/"stack":"Error: thrown by the test.*is shutting down/s);
  answer.end("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
  await waiting.until("slow");
  expect(await failing.child.ended).toBe("exit code 1");
});
