import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { annotations } from "../../src/api/names/labels.ts";
import { sandboxResources } from "../../src/controllers/cluster/resources.ts";
import { allRights, createKey } from "../cluster/client-api-world.ts";
import { GatewayWorld, namespace, type GatewayProcess } from "../hostile/gateway-world.ts";
import { setup as buildPackage } from "../setup/built-package.ts";
import { accountToken, allowToReach } from "../setup/gateway.ts";
import { type Asked, HonestClients, mebibytesOf, watch, type Window, windowMilliseconds } from "./honest-clients.ts";
import { summary } from "./samples.ts";

/** The share that honest clients of a server get while one flood runs, compared with the time just before and after it. */
export interface FloodFigure {
  server: FloodedServer;
  flood: FloodName;
  /** Attacks per second that were sent. */
  attacksPerSecond: number;
  /** Requests per second of the honest clients: medians of the windows. */
  normalPerSecond: number;
  floodedPerSecond: number;
  /** The median ratio of a window with the flood to the mean of its neighbours without it. */
  ratio: number;
  /** The same for honest requests per second of the server's CPU time, so without the CPU time that the flood's sender takes. */
  cpuRatio: number;
  /** Honest requests that failed. */
  failed: number;
  /** The most memory of the server during the flood, and that before all floods. MiB. */
  peakMebibytes: number;
  restMebibytes: number;
  /** Of requests for its health during the flood, each on its own connection. */
  slowestHealthMilliseconds: number;
}

export type FloodedServer = "gateway" | "client API";

const gatewayFloods = [
  "silent connections",
  "half requests",
  "upgraded connections",
  "endless answers",
  "no HTTP",
  "pipelined upgrades",
  "1,000 pipelined requests",
  "headers of 64 KiB",
  "bodies without a token",
  "made-up tokens",
  "forged tokens",
  "hostile answers",
] as const;
const clientApiFloods = [
  "silent connections",
  "half requests",
  "no HTTP",
  "headers of 64 KiB",
  "bodies without a key",
  "made-up keys",
  "held bodies",
  "chunked bodies",
  "bodies of many objects",
] as const;
export type FloodName = (typeof gatewayFloods | typeof clientApiFloods)[number];

export type FloodOrder = "on" | "count" | "off";

/** Where a flood goes, for its process. */
export interface FloodTarget {
  port: number;
  namespace: string;
  honestPort: number;
  /** For the gateway. */
  token: string;
  /** Of the attacker, for the client API. */
  key: string;
}

const honestPort = 8000;
/** How long the server has after the start and the end of a flood. */
const settleMilliseconds = 300;

/**
 * Measures the built gateway and client API with a real API server. All traffic is on loopback and bounded. **The sandboxes are simulated**:
 * stand-in cells in this process answer. Each flood alternates with windows without one.
 */
export async function measureFloods({ quick }: { quick: boolean }, signal: AbortSignal): Promise<FloodFigure[]> {
  buildPackage();
  const world = await GatewayWorld.open();
  try {
    await openSandboxes(world);
    const account = { namespace, name: "bench" };
    const token = await accountToken(world.client, account);
    await allowToReach(world.client, namespace, account);
    const limits = { requestsPerSecond: 1_000_000 };
    const own = await createKey(world.client, { namespace, name: "honest", rules: allRights, limits });
    const key = await createKey(world.client, { namespace, name: "attacker", rules: allRights });
    const target = { namespace, honestPort, token, key };
    const pairs = quick ? 2 : 10;
    return [
      ...(await underFloods(await world.startGateway(), gatewayOf(token), { target, pairs, signal })),
      ...(await underFloods(await world.startClientApi(), clientApiOf(own), { target, pairs, signal })),
    ];
  } finally {
    await world.close();
  }
}

function gatewayOf(token: string): Target {
  return {
    server: "gateway",
    floods: gatewayFloods,
    path: "/",
    healthPath: "/healthz",
    headers: {
      "e2b-sandbox-id": `${namespace}--private`,
      "e2b-sandbox-port": `${honestPort}`,
      "ramet-access-token": token,
    },
    isAnswer: (_, body) => body === "honest",
  };
}

function clientApiOf(key: string): Target {
  return {
    server: "client API",
    floods: clientApiFloods,
    path: "/v2/sandboxes?limit=1",
    healthPath: "/health",
    headers: { "x-api-key": key },
    isAnswer: (status) => status === 200,
  };
}

/** A server under test, and what honest clients ask it. */
interface Target extends Asked {
  server: FloodedServer;
  floods: readonly FloodName[];
}

interface FloodsRun {
  target: Omit<FloodTarget, "port">;
  /** How many windows with each flood, each between two without it. */
  pairs: number;
  signal: AbortSignal;
}

async function underFloods(process: GatewayProcess, asked: Target, run: FloodsRun): Promise<FloodFigure[]> {
  const clients = new HonestClients(process, asked);
  const target = { ...run.target, port: process.port };
  const figures: FloodFigure[] = [];
  try {
    await clients.window();
    const restMebibytes = await mebibytesOf(process);
    for (const flood of asked.floods) {
      run.signal.throwIfAborted();
      globalThis.process.stderr.write(`\r${asked.server}: ${flood} \x1b[K`);
      const figure = await measureFlood({ flood, target, clients, pairs: run.pairs });
      figures.push({ server: asked.server, restMebibytes, ...figure });
    }
    globalThis.process.stderr.write("\r\x1b[K");
  } finally {
    await clients.close();
    await process.child.kill();
  }
  return figures;
}

async function openSandboxes(world: GatewayWorld): Promise<void> {
  const answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhonest";
  const each = (stream: Duplex, reply: string) => stream.on("data", () => stream.write(reply));
  const publicPorts = [honestPort];
  await world.sandbox("honest", (stream) => each(stream, answer), { publicPorts });
  await world.sandbox("private", (stream) => each(stream, answer));
  const hostile = "HTTP/1.1 099 \u0001\r\nX A: b\r\n\r\n";
  await world.sandbox("hostile", (stream) => stream.once("data", () => stream.end(hostile)), { publicPorts });
  await world.sandbox("endless", drip, { publicPorts });
  await world.sandbox("upgraded", switchProtocols, { publicPorts });
  // Its entrypoint never runs: no body of a flood ends.
  const agent = { entrypoint: ["/bin/true"], installHash: "", configuredAt: "2030-01-01T00:00:00Z", installLog: "" };
  const noted = { metadata: { annotations: { [annotations.clientAgent]: JSON.stringify(agent) } } };
  await world.client.resource(sandboxResources.sandboxes).mergePatch({ namespace, name: "private" }, noted);
}

function switchProtocols(stream: Duplex): void {
  const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  stream.once("data", () => stream.write(switching)).once("end", () => stream.end());
}

/** Answers without an end, 100 KiB/s each. */
function drip(stream: Duplex): void {
  stream.once("data", () => {
    stream.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    const timer = setInterval(() => stream.write(`2800\r\n${"a".repeat(0x2800)}\r\n`), 100);
    stream.once("close", () => {
      clearInterval(timer);
    });
  });
}

interface FloodRun {
  flood: FloodName;
  target: FloodTarget;
  clients: HonestClients;
  /** How many windows with the flood, each between two without it. */
  pairs: number;
}

async function measureFlood({
  flood,
  target,
  clients,
  pairs,
}: FloodRun): Promise<Omit<FloodFigure, "server" | "restMebibytes">> {
  const sender = fork(new URL("flood-program.ts", import.meta.url), [JSON.stringify({ name: flood, target })]);
  await once(sender, "message");
  const failedBefore = clients.failed;
  const normal = [await clients.window()];
  const flooded: Window[] = [];
  let attacks = 0;
  let worst = { peakMebibytes: 0, slowestHealthMilliseconds: 0 };
  for (let turn = 0; turn < pairs; turn++) {
    await order(sender, "on");
    await delay(settleMilliseconds);
    const before = await order(sender, "count");
    const endWatch = watch(clients);
    const window = await clients.window();
    const seen = await endWatch();
    worst = {
      peakMebibytes: Math.max(worst.peakMebibytes, seen.peakMebibytes),
      slowestHealthMilliseconds: Math.max(worst.slowestHealthMilliseconds, seen.slowestHealthMilliseconds),
    };
    const sent = (await order(sender, "count")) - before;
    await order(sender, "off");
    await delay(settleMilliseconds);
    normal.push(await clients.window());
    flooded.push(window);
    attacks += sent;
  }
  sender.disconnect();
  const ratioOf = (measure: "perSecond" | "perCpuSecond"): number =>
    median(
      flooded.map((window, turn) => window[measure] / mean(normal.slice(turn, turn + 2).map((each) => each[measure]))),
    );
  return {
    flood,
    attacksPerSecond: attacks / ((pairs * windowMilliseconds) / 1000),
    normalPerSecond: median(normal.map(({ perSecond }) => perSecond)),
    floodedPerSecond: median(flooded.map(({ perSecond }) => perSecond)),
    ratio: ratioOf("perSecond"),
    cpuRatio: ratioOf("perCpuSecond"),
    failed: clients.failed - failedBefore,
    ...worst,
  };
}

/** Orders something, and waits until it is done. @returns the attacks since the start of the sender, 0 for "on" */
async function order(sender: ChildProcess, what: FloodOrder): Promise<number> {
  const done = once(sender, "message") as Promise<[unknown]>;
  sender.send(what);
  return Number((await done)[0]) || 0;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function median(values: readonly number[]): number {
  return summary(values)?.p50 ?? 0;
}

/** User and system time of a process: fields 14 and 15 of proc_pid_stat(5), in hundredths of a second. */
