import type { GatewayCosts } from "./gateway.ts";
import { aligned } from "./report.ts";
import type { Summary } from "./samples.ts";

export function gatewayTable({ ways, concurrency }: GatewayCosts): string {
  const head = ["", "p50", "p95", "p99", `per second, ${concurrency} concurrent`];
  return ways
    .map(({ what, direct, bare, gateway, directPerSecond, barePerSecond, gatewayPerSecond }) =>
      [
        `requests to a sandbox, ms, one at a time; ${what} (${direct.n})`,
        ...aligned([
          head,
          ["the Pod's address", ...percentiles(direct), directPerSecond.toFixed(0)],
          ["two bare proxies", ...percentiles(bare), barePerSecond.toFixed(0)],
          ["the gateway", ...percentiles(gateway), gatewayPerSecond.toFixed(0)],
        ]),
        ratioLine("bare proxies", bare, direct, barePerSecond / directPerSecond),
        ratioLine("gateway", gateway, direct, gatewayPerSecond / directPerSecond),
      ].join("\n"),
    )
    .join("\n\n");
}

function ratioLine(what: string, { p50 }: Summary, direct: Summary, rate: number): string {
  const [times, more] = [p50 / direct.p50, p50 - direct.p50];
  return `  ratio  ${what} ÷ Pod's address = ${times.toFixed(2)} (${more.toFixed(2)} ms more), requests per second ${rate.toFixed(2)}`;
}

function percentiles({ p50, p95, p99 }: Summary): string[] {
  return [p50, p95, p99].map((value) => value.toFixed(2));
}
