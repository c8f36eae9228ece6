import { guestClientPort, reportsPort } from "../api/cell/cell-api.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { type Destination, destinationOf, namingHint } from "./destination.ts";
import type { Exchange } from "./exchange.ts";
import { isGrpc } from "./grpc.ts";
import type { InvalidResponses } from "./invalid-responses.ts";
import type { ExchangeSlots } from "./limits.ts";
import type { GatewayMetrics } from "./metrics.ts";
import { refuse } from "./refusal.ts";
import { routeOf, type RouterOptions } from "./router.ts";
import type { Route } from "./upstreams.ts";

export interface AnswerOptions extends RouterOptions {
  slots: ExchangeSlots;
  invalidResponses: InvalidResponses;
  metrics: GatewayMetrics;
  log: Log;
}

/**
 * Routes and proxies a request, then records its outcome. Never logs its content.
 * @param send proxies the request and returns the status
 */
export async function answer(
  gateway: AnswerOptions,
  exchange: Exchange,
  send: (route: Route) => Promise<number>,
): Promise<void> {
  const { metrics, clock, log, slots } = gateway;
  const { request, response, origin } = exchange;
  const releases: (() => void)[] = [];
  const since = clock.monotonicMilliseconds();
  let destination: Destination | undefined;
  let status: number;
  metrics.underWay(1);
  try {
    destination = destinationOf(request.headers);
    if (destination === undefined) {
      answerItself(exchange);
      return;
    }
    // A connection of HTTP/1.1 has one request, and was counted when it was accepted.
    if (request.stream !== undefined) releases.push(slots.takeForStream());
    if (request.stream !== undefined || origin.isProxied) releases.push(slots.takeForClient(origin.address));
    const route = await routeOf(gateway, destination, { request, origin });
    releases.push(slots.takeForSandbox(route.sandbox.metadata, route.title));
    status = await gateway.invalidResponses.watch(route, () => send(route));
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (response.headersSent || response.body.destroyed) return;
    status = refuse(exchange, error, destination);
    const level = status === 500 ? "error" : "debug";
    log[level]({ ...destination, status, code: error.code, error: error.message }, "refused a request");
  } finally {
    metrics.underWay(-1);
    for (const release of releases) release();
  }
  metrics.answered(status, (clock.monotonicMilliseconds() - since) / 1000);
}

/** Responds to a request that names no sandbox: a health check, or a mistake. */
function answerItself(exchange: Exchange): void {
  if (exchange.request.url === "/healthz") {
    exchange.response.writeHead(200, []);
    exchange.response.body.end("ok\n");
  } else {
    refuse(
      exchange,
      new RametError("InvalidArgument", "The request names no sandbox", { hint: namingHint }),
      undefined,
    );
  }
}

/** Whether the program at a port speaks HTTP/2: gRPC needs it, and other programs are declared. */
export function programSpeaksHttp2({ request }: Pick<Exchange, "request">, { sandbox, port }: Route): boolean {
  if (request.stream === undefined || port === guestClientPort || port === reportsPort) return false;
  return isGrpc(request) || sandbox.http2Ports.includes(port);
}
