import { Agent, request } from "undici";
import { startBareHops } from "./bare-hops.ts";
import { readPort } from "../../src/local/supervisor/parts.ts";
import { accountToken, allowToReach } from "../setup/gateway.ts";
import { namespace, type LocalCluster } from "./local-cluster.ts";
import { summary, type Summary } from "./samples.ts";
import { firstAnswer, workloadPort } from "./workload.ts";

/** Requests to one sandbox through the gateway, alternating with requests to the Pod's address and through bare proxies. */
export interface GatewayCosts {
  ways: GatewayWay[];
  concurrency: number;
}

export interface GatewayWay {
  what: string;
  /** Milliseconds of a request with a small response, one at a time. */
  direct: Summary;
  bare: Summary;
  gateway: Summary;
  /** Requests per second, with `concurrency` concurrent requests. */
  directPerSecond: number;
  barePerSecond: number;
  gatewayPerSecond: number;
}

const concurrency = 16;
const requestsAtOnce = 2_000;

/** @param n the number of turns, of ten requests each */
export async function measureGateway(cluster: LocalCluster, n: number, signal: AbortSignal): Promise<GatewayCosts> {
  const { client } = cluster.cluster;
  const sandbox = await cluster.createSandbox({ name: "asked", command: ["python3", "-c", responder] });
  const ip = sandbox.status?.sandboxIp ?? "";
  await firstAnswer(ip);
  const account = { namespace, name: "bench" };
  const token = await accountToken(client, account);
  await allowToReach(client, namespace, account);
  const headers = {
    "e2b-sandbox-id": `${namespace}--asked`,
    "e2b-sandbox-port": `${workloadPort}`,
    "ramet-access-token": token,
  };
  const dispatcher = new Agent({ connections: concurrency });
  const asking = (origin: string, path: string) => async (): Promise<void> => {
    const answer = await request(`${origin}${path}`, { dispatcher, headers, signal });
    const text = await answer.body.text();
    if (text !== "answer") throw new Error(`${origin} answered ${answer.statusCode}: ${text}`);
  };
  const gateway = `http://127.0.0.1:${readPort(cluster.directory.gatewayPort) ?? 0}`;
  const hops = await startBareHops({ host: ip, port: workloadPort });
  const measure = (what: string, path: string) =>
    measureWay(what, n * 10, {
      direct: asking(`http://${ip}:${workloadPort}`, path),
      bare: asking(hops.origin, path),
      gateway: asking(gateway, path),
    });
  try {
    // Sequentially, because each would take CPU time from the other.
    const kept = await measure("connections are kept", "/");
    return { ways: [kept, await measure("the program ends each connection", "/close")], concurrency };
  } finally {
    hops.close();
    await dispatcher.close();
    await cluster.remove(cluster.cluster.sandboxes, sandbox);
  }
}

type Sides = Record<"direct" | "bare" | "gateway", () => Promise<void>>;

async function measureWay(what: string, n: number, sides: Sides): Promise<GatewayWay> {
  const times: Record<keyof Sides, number[]> = { direct: [], bare: [], gateway: [] };
  // The first ones are a warm-up and are discarded.
  for (let turn = -20; turn < n; turn++) {
    for (const side of ["direct", "bare", "gateway"] as const) {
      const since = performance.now();
      await sides[side]();
      if (turn >= 0) times[side].push(performance.now() - since);
    }
  }
  return {
    what,
    direct: summary(times.direct)!,
    bare: summary(times.bare)!,
    gateway: summary(times.gateway)!,
    directPerSecond: await perSecond(sides.direct),
    barePerSecond: await perSecond(sides.bare),
    gatewayPerSecond: await perSecond(sides.gateway),
  };
}

async function perSecond(ask: () => Promise<void>): Promise<number> {
  let left = requestsAtOnce;
  const since = performance.now();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (left-- > 0) await ask();
    }),
  );
  return requestsAtOnce / ((performance.now() - since) / 1000);
}

/** Keeps connections open, unlike the workload of other figures, except at `/close`. A single write, because a second one would wait for an acknowledgement. */
const responder = `
import http.server, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "6")
        if self.path == "/close": self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"answer")
    def log_message(self, *_): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128
Server(("0.0.0.0", ${workloadPort}), Handler).serve_forever()
`;
