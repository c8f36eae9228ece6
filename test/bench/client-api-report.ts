import type { ClientApiCosts } from "./client-api.ts";
import type { CreateStorm } from "./create-storm.ts";
import { aligned } from "./report.ts";
import type { Summary } from "./samples.ts";

export function clientApiTable({ milliseconds, commands, transfers, idle }: ClientApiCosts): string {
  const [first] = Object.values(milliseconds);
  const rows = Object.entries(milliseconds).map(([name, each]) => [name, ...percentiles(each)]);
  return [
    `client-api: requests of clients to a local cluster, ms; n = ${first?.n ?? 0}`,
    ...aligned([["", "p50", "p95", "p99", "max"], ...rows]),
    "",
    "a command, and the same command started by a program in the sandbox, in turns, ms",
    ...aligned([
      ["", "p50", "p95", "p99", "max"],
      ...Object.entries(commands).map(([name, each]) => [name, ...percentiles(each)]),
    ]),
    "",
    "100 MiB, MiB/s; median",
    ...aligned(Object.entries(transfers).map(([name, rate]) => [name, rate.toFixed(0)])),
    "",
    `memory of the client API: ${idle.residentMiB.toFixed(0)} MiB, and ${idle.kibibytesPerClient.toFixed(1)} KiB for each of ${idle.clients} idle clients`,
  ].join("\n");
}

export function createStormTable(storms: readonly CreateStorm[]): string {
  const rows = storms.map(({ creates, concurrency, milliseconds, perSecond, twice }) => [
    `${creates} creates, ${concurrency} at a time`,
    ...percentiles(milliseconds),
    perSecond.toFixed(0),
    `${twice}`,
  ]);
  return [
    "client-api: POST /sandboxes from a stocked set of simulated sandboxes, ms",
    ...aligned([["", "p50", "p95", "p99", "max", "per second", "twice"], ...rows]),
  ].join("\n");
}

function percentiles({ p50, p95, p99, max }: Summary): string[] {
  return [p50, p95, p99, max].map((value) => value.toFixed(1));
}
