import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { longOptions, usage } from "./long/options.ts";
import { runLong } from "./long/run.ts";

/** `npm run test:faults`: the short suite. With `--long`: many planned faults, checked by one oracle. */
async function main(args: readonly string[]): Promise<number> {
  if (!args.includes("--long") && !args.includes("--help")) return shortSuite(args);
  const options = longOptions(args);
  if (options === undefined) {
    console.log(usage);
    return 0;
  }
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => {
      interrupted.abort();
    });
  const broken = await runLong(options, interrupted.signal);
  return interrupted.signal.aborted ? 130 : broken === 0 ? 0 : 1;
}

function shortSuite(args: readonly string[]): number {
  const config = join(import.meta.dirname, "vitest.config.ts");
  return spawnSync("vitest", ["run", "--config", config, ...args], { stdio: "inherit" }).status ?? 1;
}

process.exitCode = await main(process.argv.slice(2));
