import type { Fork, ForkCost } from "./fork.ts";
import type { Memory } from "./memory.ts";
import { aligned } from "./report.ts";

export function forkTable({ clones, rounds, ramet, bare }: Fork): string {
  const times = [
    ["", "p50 of each", "p95", "max", "until all respond, p50", "CPU-seconds", "per clone", "PSS per clone, MiB"],
    timesRow("ramet", ramet, clones),
    timesRow("bare runsc restore", bare, clones),
  ];
  const memory = [
    ["memory of one idle clone, MiB", "processes", "rss", "pss"],
    ...ramet.memory.map((part) => memoryRow("ramet", part)),
    ...bare.memory.map((part) => memoryRow("bare", part)),
  ];
  const ratio = ramet.allMilliseconds.p50 / bare.allMilliseconds.p50;
  return [
    `fork: ${clones} concurrent clones of one capture (small process), ms from the first request to the response; rounds: ${rounds}`,
    ...aligned(times),
    `  ratio  until all respond ÷ bare = ${ratio.toFixed(2)}`,
    ...aligned(memory),
  ].join("\n");
}

function timesRow(
  name: string,
  { eachMilliseconds, allMilliseconds, cpuSeconds, memory }: ForkCost,
  clones: number,
): string[] {
  return [
    name,
    eachMilliseconds.p50.toFixed(0),
    eachMilliseconds.p95.toFixed(0),
    eachMilliseconds.max.toFixed(0),
    allMilliseconds.p50.toFixed(0),
    cpuSeconds?.toFixed(2) ?? "",
    cpuSeconds === undefined ? "" : (cpuSeconds / clones).toFixed(3),
    memory.reduce((total, { pssMiB }) => total + pssMiB, 0).toFixed(1),
  ];
}

function memoryRow(side: string, { what, processes, rssMiB, pssMiB }: Memory): string[] {
  return [`${side}: ${what}`, processes.toFixed(1), rssMiB.toFixed(1), pssMiB.toFixed(1)];
}
