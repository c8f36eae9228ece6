import type { ProgramCosts } from "./program.ts";
import { aligned } from "./report.ts";

export function programTable({ ranBy, runs, providerBytes, package: packed }: ProgramCosts): string {
  const p50 = (program: string, what: string): number =>
    runs.find((one) => one.program === program && one.what === what)?.milliseconds?.p50 ?? 0;
  const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(2);
  return [
    `program: a hundred objects, nothing changed, SIMULATED controllers; ${ranBy}`,
    ...aligned([
      ["", "n", "p50, ms", "p95", "min", "max"],
      ...runs.map(({ program, what, milliseconds }) => [
        `${program === "ramet" ? "Ramet's objects" : "ConfigMaps"}, ${what}`,
        `${milliseconds?.n ?? 0}`,
        ...(["p50", "p95", "min", "max"] as const).map((name) => (milliseconds?.[name] ?? 0).toFixed(0)),
      ]),
    ]),
    ...(["preview", "up"] as const).map(
      (what) => `  ratio  ${what} = ${(p50("ramet", what) / p50("plain", what)).toFixed(2)}`,
    ),
    `  a provider in the state: NamedSnapshot ${providerBytes.namedSnapshot} bytes, SandboxClone ${providerBytes.sandboxClone}`,
    `  package: ${mebibytes(packed.packedBytes)} MiB packed, ${mebibytes(packed.unpackedBytes)} unpacked, ${packed.files} files`,
    ...aligned([
      ["npm install of", "packages", "empty cache, s", "again, s"],
      ...packed.installs.map(({ what, packages, firstSeconds, againSeconds }) => [
        what,
        `${packages}`,
        firstSeconds.toFixed(1),
        againSeconds.toFixed(1),
      ]),
    ]),
  ].join("\n");
}
