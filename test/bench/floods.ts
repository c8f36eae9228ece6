import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import { GatewayWorld, namespace, type GatewayProcess } from "../hostile/gateway-world.ts";
import { setup as buildPackage } from "../setup/built-package.ts";
import { accountToken, allowToReach } from "../setup/gateway.ts";
import { cpuSecondsOf } from "./cpu-of-processes.ts";
import { summary } from "./samples.ts";

/** The share that honest clients of a gateway get while one flood runs, compared with the time just before and after it. */
export interface FloodFigure {
  flood: FloodName;
  /** Attacks per second that were sent. */
  attacksPerSecond: number;
  /** Requests per second of the honest clients: medians of the windows. */
  normalPerSecond: number;
  floodedPerSecond: number;
  /** The median ratio of a window with the flood to the mean of its neighbours without it. */
  ratio: number;
  /** The same for honest requests per second of the gateway's CPU time, so without the CPU time that the flood's sender takes. */
  cpuRatio: number;
  /** Honest requests that failed. */
  failed: number;
}

export const floodNames = [
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
export type FloodName = (typeof floodNames)[number];

export type FloodOrder = "on" | "count" | "off";

/** Where a flood goes, for its process. */
export interface FloodTarget {
  port: number;
  namespace: string;
  honestPort: number;
  token: string;
}

const honestPort = 8000;
const honestClients = 8;
/** How long the gateway has after the start and the end of a flood. */
const settleMilliseconds = 300;
const windowMilliseconds = 1_000;

/**
 * Measures the built gateway with a real API server. All traffic is on loopback and bounded. **The sandboxes are simulated**:
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
    const gateway = await world.startGateway();
    const clients = new HonestClients(gateway, token);
    const target: FloodTarget = { port: gateway.port, namespace, honestPort, token };
    const figures: FloodFigure[] = [];
    try {
      await clients.window();
      for (const flood of floodNames) {
        signal.throwIfAborted();
        process.stderr.write(`\r${flood} \x1b[K`);
        figures.push(await measureFlood({ flood, target, clients, pairs: quick ? 2 : 10 }));
      }
      process.stderr.write("\r\x1b[K");
    } finally {
      await clients.close();
      await gateway.child.kill();
    }
    return figures;
  } finally {
    await world.close();
  }
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

interface Window {
  perSecond: number;
  perCpuSecond: number;
}

/** Clients with a good token, each with a kept connection and the next request as soon as it has the answer. */
class HonestClients {
  readonly #gateway: GatewayProcess;
  readonly #token: string;
  readonly #dispatcher = new Agent({ connections: honestClients });
  failed = 0;

  constructor(gateway: GatewayProcess, token: string) {
    this.#gateway = gateway;
    this.#token = token;
  }

  async window(): Promise<Window> {
    const { pid } = this.#gateway.child;
    const [since, cpuSince] = [performance.now(), await cpuSecondsOf([pid])];
    let answered = 0;
    const ask = async (): Promise<void> => {
      while (performance.now() - since < windowMilliseconds) {
        if (await this.#request()) answered++;
        else this.failed++;
      }
    };
    await Promise.all(Array.from({ length: honestClients }, ask));
    const seconds = (performance.now() - since) / 1000;
    const used = (await cpuSecondsOf([pid])) - cpuSince;
    return { perSecond: answered / seconds, perCpuSecond: answered / used };
  }

  close(): Promise<void> {
    return this.#dispatcher.close();
  }

  async #request(): Promise<boolean> {
    const headers = {
      "e2b-sandbox-id": `${namespace}--private`,
      "e2b-sandbox-port": `${honestPort}`,
      "ramet-access-token": this.#token,
    };
    try {
      const { body } = await request(`http://127.0.0.1:${this.#gateway.port}/`, {
        dispatcher: this.#dispatcher,
        headers,
      });
      return (await body.text()) === "honest";
    } catch {
      return false;
    }
  }
}

interface FloodRun {
  flood: FloodName;
  target: FloodTarget;
  clients: HonestClients;
  /** How many windows with the flood, each between two without it. */
  pairs: number;
}

async function measureFlood({ flood, target, clients, pairs }: FloodRun): Promise<FloodFigure> {
  const sender = fork(new URL("flood-program.ts", import.meta.url), [JSON.stringify({ name: flood, target })]);
  await once(sender, "message");
  const failedBefore = clients.failed;
  const normal = [await clients.window()];
  const flooded: Window[] = [];
  let attacks = 0;
  for (let turn = 0; turn < pairs; turn++) {
    await order(sender, "on");
    await delay(settleMilliseconds);
    const before = await order(sender, "count");
    const window = await clients.window();
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
