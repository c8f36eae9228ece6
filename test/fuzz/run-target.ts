import { readdirSync } from "node:fs";
import fc from "fast-check";
import { targets } from "./targets.ts";

/** What the process of one target reports after each part of its inputs. */
export interface Progress {
  inputs: number;
  heapBytes: number;
  /** Sockets, timers and the like. */
  resources: number;
  descriptors: number;
  /** Why it failed, with the input. */
  failure?: string;
}

const partInputs = 1_000;
/** What a process may hold more than after its first inputs. */
const maxMore = { heapBytes: 32 << 20, resources: 16, descriptors: 16 };

/** Sends inputs to one target: `run-target.ts <name> <inputs> <seed>`, with an IPC channel to `main.ts`. */
async function main([name, count = "", seed = ""]: string[]): Promise<void> {
  const target = targets.find((each) => each.name === name);
  if (target === undefined) throw new Error(`there is no target ${String(name)}`);
  const opened = await target.open();
  let first: Progress | undefined;
  let failed = false;
  for (let done = 0, part = 0; done < Number(count) && !failed; part += 1) {
    const numRuns = Math.min(partInputs, Number(count) - done);
    // Each part has its own seed, so that one part can be repeated.
    const details = await opened.run({ numRuns, seed: Number(seed) + part });
    done += numRuns;
    const failure = details.failed ? fc.defaultReportMessage(details) : undefined;
    const progress = { ...(await held()), inputs: done, ...(failure !== undefined && { failure }) };
    // The first parts compile code and fill pools.
    if (part === 1) first = progress;
    const leak = first && leakSince(first, progress);
    failed = details.failed || leak !== undefined;
    await sent(leak === undefined ? progress : { ...progress, failure: leak });
  }
  await opened.close();
  process.disconnect();
}

async function held(): Promise<Omit<Progress, "inputs">> {
  // What an input started ends soon after it.
  await new Promise((resolve) => setTimeout(resolve, 50));
  globalThis.gc?.();
  return {
    heapBytes: process.memoryUsage().heapUsed,
    resources: process.getActiveResourcesInfo().length,
    descriptors: readdirSync("/proc/self/fd").length,
  };
}

function leakSince(first: Progress, now: Progress): string | undefined {
  const grown = (["heapBytes", "resources", "descriptors"] as const).filter(
    (key) => now[key] > first[key] + maxMore[key],
  );
  if (grown.length === 0) return undefined;
  return `a leak: after ${first.inputs} inputs the process held ${JSON.stringify(first)}, and now ${JSON.stringify(now)}`;
}

function sent(progress: Progress): Promise<void> {
  return new Promise((resolve) =>
    process.send?.(progress, undefined, undefined, () => {
      resolve();
    }),
  );
}

await main(process.argv.slice(2));
