import { ByteBudget } from "../base/byte-budget.ts";
import { RametError } from "../base/errors.ts";
import { Slots } from "../base/slots.ts";
import type { Exchange } from "./exchange.ts";
import type { GatewayMetrics } from "./metrics.ts";

/** How many connections a gateway has at a time. A request in progress counts as one. */
export interface GatewayLimits {
  /** Connections of all clients. From 90 % on, new ones get 503. */
  connections: number;
  perClient: number;
  perNamespace: number;
  perSandbox: number;
}

/** No single client, namespace or sandbox can occupy a gateway. A client can be a load balancer, so its share is large. */
export const defaultLimits: GatewayLimits = {
  connections: 10_000,
  perClient: 2_500,
  perNamespace: 5_000,
  perSandbox: 1_000,
};

/** A load balancer that gets 503 selects another gateway, while a connection that is closed looks like a failure. */
export const shedFrom = 0.9;

/** Bodies that are being proxied. Each has at most the window of a stream in memory. */
const bodyBytes = { all: 384 * 1024 ** 2, ofAddress: 192 * 1024 ** 2, each: 128 * 1024 };

/** The slots of requests and upgraded connections in progress. */
export class ExchangeSlots {
  readonly #metrics: GatewayMetrics;
  readonly #bytes = new ByteBudget(bodyBytes);
  readonly #slots: Readonly<Record<"overload" | "client" | "namespace" | "sandbox", Slots>>;

  constructor({ connections, perClient, perNamespace, perSandbox }: GatewayLimits, metrics: GatewayMetrics) {
    this.#metrics = metrics;
    this.#slots = {
      overload: new Slots(connections * shedFrom),
      client: new Slots(perClient),
      namespace: new Slots(perNamespace),
      sandbox: new Slots(perSandbox),
    };
  }

  /**
   * Takes the slots of a request: for HTTP/2, one of all clients; for HTTP/2 or behind a trusted proxy, one of the client.
   * @returns the function that gives them back @throws RametError `Unavailable`
   */
  takeForClient(address: string, { isStream }: { isStream: boolean }): () => void {
    const all: Wanted[] = isStream ? [["overload", "", "All clients together"]] : [];
    return this.#take([...all, ["client", address, "The client"]]);
  }

  /**
   * Counts the part of a body that the gateway has in memory.
   * @returns the function that ends that @throws RametError `TooManyRequests`; `Unavailable`
   */
  holdBody({ request: { hasBody, headers }, origin }: Pick<Exchange, "request" | "origin">): () => void {
    const held = this.#bytes.open({ address: origin.address });
    try {
      if (hasBody) held.hold(Math.min(Number(headers["content-length"] ?? bodyBytes.each), bodyBytes.each));
    } catch (error) {
      this.#metrics.refused(RametError.from(error).code === "Unavailable" ? "overload" : "client");
      throw error;
    }
    return () => {
      held.end();
    };
  }

  /** @returns the function that gives the slots back @throws RametError `Unavailable` */
  takeForSandbox({ namespace, uid }: { namespace: string; uid: string }, title: string): () => void {
    return this.#take([
      ["namespace", namespace, `The namespace of the ${title}`],
      ["sandbox", uid, `The ${title}`],
    ]);
  }

  #take(wanted: readonly Wanted[]): () => void {
    const releases: (() => void)[] = [];
    const giveBack = (): void => {
      for (const release of releases) release();
    };
    for (const [reason, key, whose] of wanted) {
      const release = this.#slots[reason].take(key);
      if (release !== undefined) {
        releases.push(release);
        continue;
      }
      giveBack();
      this.#metrics.refused(reason);
      throw new RametError("Unavailable", `${whose} has too many connections through this gateway`, {
        hint: "Close connections that you do not need, or repeat the request later",
        retryable: true,
      });
    }
    return giveBack;
  }
}

type Wanted = [reason: "overload" | "client" | "namespace" | "sandbox", key: string, whose: string];
