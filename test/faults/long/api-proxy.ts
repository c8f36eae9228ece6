import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Agent, createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import type { KeyPair } from "../../../src/local/control-plane/certificate.ts";

/**
 * The fate of a request of the controllers: `429`, `500` and `409` (of writes) answer instead of the API server; `slow`
 * forwards it late; `hang` never answers; `cut` forwards it and closes the connection before the response; `stale` holds
 * back the events of watches, and delivers them when it ends.
 */
export type ApiFault = "429" | "500" | "409" | "slow" | "hang" | "cut" | "stale";

interface InjectedAnswer {
  code: number;
  reason: string;
}

export interface ApiProxyOptions {
  /** The URL of the API server. */
  target: string;
  ca: string;
  /** For the proxy's clients. */
  serving: KeyPair;
  /** For the API server. */
  client: KeyPair;
  /** Holds a request back before it is forwarded, also if its client has gone meanwhile. @default none is held back */
  onRequest?: (request: ProxiedRequest) => Promise<unknown> | undefined;
  /** Holds a response back. @default none is held back */
  onResponse?: (request: ProxiedRequest) => Promise<unknown> | undefined;
}

export interface ProxiedRequest {
  method: string;
  path: string;
  body: string;
}

/** A proxy between the controllers and a real API server that applies faults to their requests. */
export class ApiProxy {
  readonly #server;
  readonly #agent: Agent;
  readonly #target: URL;
  readonly #hooks: Pick<ApiProxyOptions, "onRequest" | "onResponse">;
  readonly #active = new Map<ApiFault, number>();
  readonly #hung = new Set<ServerResponse>();
  readonly #watches = new Set<IncomingMessage>();
  #hits = 0;

  constructor({ target, ca, serving, client, ...hooks }: ApiProxyOptions) {
    this.#target = new URL(target);
    this.#hooks = hooks;
    this.#agent = new Agent({ keepAlive: true, ca, cert: client.certificate, key: client.key });
    this.#server = createServer({ cert: serving.certificate, key: serving.key }, (incoming, outgoing) => {
      this.#serve(incoming, outgoing).catch(() => outgoing.destroy());
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Applies the fault until the returned function is called, which resolves to the number of requests or watches it hit. */
  begin(fault: ApiFault): () => number {
    const before = this.#hits;
    this.#active.set(fault, (this.#active.get(fault) ?? 0) + 1);
    if (fault === "stale") {
      for (const watch of this.#watches) watch.pause();
      this.#hits += this.#watches.size;
    }
    return () => {
      this.#active.set(fault, (this.#active.get(fault) ?? 1) - 1);
      if (fault === "stale" && !this.#is("stale")) for (const watch of this.#watches) watch.resume();
      if (fault === "hang" && !this.#is("hang")) for (const response of this.#hung) response.destroy();
      return this.#hits - before;
    };
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
    this.#agent.destroy();
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = "GET", url: path = "/", headers } = incoming;
    const body = await bytesOf(incoming);
    const isWatch = /[?&]watch=(1|true)/.test(path);
    if (this.#is("hang")) {
      this.#hits++;
      this.#hung.add(outgoing);
      outgoing.on("close", () => this.#hung.delete(outgoing));
      return;
    }
    const answer = this.#injectedAnswer(method !== "GET");
    if (answer !== undefined) {
      this.#answer(outgoing, answer);
      return;
    }
    if (this.#is("slow")) {
      this.#hits++;
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
    const proxied = { method, path, body: body.toString() };
    // A client can leave while its request is held back.
    outgoing.on("error", () => undefined);
    await this.#hooks.onRequest?.(proxied);
    const { hostname, port } = this.#target;
    const passed = request({ hostname, port, method, path, headers, agent: this.#agent });
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    passed.end(body);
    const [response] = (await once(passed, "response")) as [IncomingMessage];
    await this.#hooks.onResponse?.(proxied);
    if (this.#is("cut") && !isWatch) {
      this.#hits++;
      return void outgoing.destroy();
    }
    outgoing.writeHead(response.statusCode ?? 502, response.headers);
    response.on("error", () => outgoing.destroy());
    response.on("data", (chunk: Buffer) => outgoing.write(chunk));
    response.on("end", () => outgoing.end());
    if (!isWatch) return;
    outgoing.flushHeaders();
    this.#watches.add(response);
    // Also when its connection ends. A listener on the connection itself would stay when the connection is used again.
    response.on("close", () => this.#watches.delete(response));
    if (this.#is("stale")) response.pause();
  }

  #injectedAnswer(isWrite: boolean): InjectedAnswer | undefined {
    if (this.#is("429")) return { code: 429, reason: "TooManyRequests" };
    if (this.#is("500")) return { code: 500, reason: "InternalError" };
    return this.#is("409") && isWrite ? { code: 409, reason: "Conflict" } : undefined;
  }

  #answer(outgoing: ServerResponse, { code, reason }: InjectedAnswer): void {
    this.#hits++;
    const status = { kind: "Status", apiVersion: "v1", status: "Failure", reason, code, message: "an injected fault" };
    const retry = code === 429 ? { "retry-after": "1" } : {};
    outgoing.writeHead(code, { "content-type": "application/json", ...retry }).end(JSON.stringify(status));
  }

  #is(fault: ApiFault): boolean {
    return (this.#active.get(fault) ?? 0) > 0;
  }
}

async function bytesOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}
