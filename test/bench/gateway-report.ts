import type { GatewayCosts } from "./gateway.ts";
import { aligned } from "./report.ts";
import type { Summary } from "./samples.ts";

export function gatewayTable({ ways, concurrency }: GatewayCosts): string {
  const head = ["", "p50", "p95", "p99", `per second, ${concurrency} concurrent`];
  return ways
    .map(({ what, direct, gateway, directPerSecond, gatewayPerSecond }) =>
      [
        `requests to a sandbox, ms, one at a time; ${what} (${direct.n})`,
        ...aligned([
          head,
          ["the Pod's address", ...percentiles(direct), directPerSecond.toFixed(0)],
          ["the gateway", ...percentiles(gateway), gatewayPerSecond.toFixed(0)],
        ]),
        `  ratio  gateway ÷ Pod's address = ${(gateway.p50 / direct.p50).toFixed(2)} (${(gateway.p50 - direct.p50).toFixed(2)} ms more)`,
      ].join("\n"),
    )
    .join("\n\n");
}

function percentiles({ p50, p95, p99 }: Summary): string[] {
  return [p50, p95, p99].map((value) => value.toFixed(2));
}
