import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout } from "node:timers/promises";

/**
 * The action of the proxy on a request: forward it (`pass`); respond with `slow-down` instead of the store; forward it and
 * close the connection before the response (`lose-response`); change a byte of its body and forward it (`corrupt`).
 */
export type Fault = "pass" | "slow-down" | "lose-response" | "corrupt";

/** A proxy between a client and a real server that applies a fault to each request: a faulty network, not a faulty server. */
export interface FaultProxy {
  endpoint: string;
  /** @default every request passes */
  choose: (request: { method: string; path: string; range?: string | undefined }) => Fault;
  /** How fast the body of each request arrives. @default as fast as it is sent */
  bytesPerSecond: number;
  stop(): Promise<void>;
}

/** @param host the address on which it listens */
export async function startFaultProxy(target: string, host = "127.0.0.1"): Promise<FaultProxy> {
  const server = createServer((incoming, outgoing) => {
    forward(new URL(target), proxy, incoming, outgoing).catch(() => outgoing.destroy());
  });
  server.listen(0, host);
  await once(server, "listening");
  const proxy: FaultProxy = {
    endpoint: `http://${host}:${(server.address() as AddressInfo).port}`,
    choose: () => "pass",
    bytesPerSecond: Infinity,
    stop: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
  return proxy;
}

const beginningBytes = 1 << 20;
const rejectionMilliseconds = 250;

async function forward(
  { hostname, port }: URL,
  { choose, bytesPerSecond }: FaultProxy,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { method = "GET", url: path = "/", headers } = incoming;
  const body = await bytesOf(incoming, bytesPerSecond);
  const fault = choose({ method, path, range: headers.range });
  if (fault === "slow-down") return void outgoing.writeHead(503).end("<Error><Code>SlowDown</Code></Error>");
  if (fault === "corrupt" && body.length > 0) body[0] = body[0]! ^ 1;
  const passed = request({ hostname, port, method, path, headers });
  // A server that rejects the request may close the connection before it has read the body. Only its response matters.
  passed.on("error", () => undefined);
  const responded = once(passed, "response") as Promise<[IncomingMessage]>;
  // versitygw rejects an upload after the beginning of its body, and closes the connection. More writes would lose its response.
  const beginning = body.length > beginningBytes ? body.subarray(0, beginningBytes) : undefined;
  if (beginning !== undefined) {
    passed.write(beginning);
    await Promise.race([responded, setTimeout(rejectionMilliseconds)]);
  }
  passed.end(body.subarray(beginning?.length ?? 0));
  const [answer] = await responded;
  const answered = await bytesOf(answer);
  if (fault === "lose-response") return void outgoing.destroy();
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers).end(answered);
}

async function bytesOf(message: IncomingMessage, bytesPerSecond = Infinity): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    if (bytesPerSecond < Infinity) await setTimeout((chunk.length / bytesPerSecond) * 1_000);
  }
  return Buffer.concat(chunks);
}
