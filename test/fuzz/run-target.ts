import { readdirSync } from "node:fs";
import fc from "fast-check";
import { targets } from "./targets.ts";

/** The report of one target's process after each part of its inputs. */
export interface Progress {
  inputs: number;
  heapBytes: number;
  /** Sockets, timers and the like. */
  resources: number;
  descriptors: number;
  /** After how many further inputs the process was compared with what it held after its first ones. */
  compared: number;
  /** Why it failed, with the input. */
  failure?: string;
}

type Held = Pick<Progress, "heapBytes" | "resources" | "descriptors">;

const mostInPart = 1_000;
/** Every target is compared, however few its inputs are. */
const leastParts = 10;
/** The first parts compile code and fill pools. */
const warmParts = 2;

/** The growth that a process may have after its first inputs: less after few inputs, so that they show a leak too. */
function maxMore(inputs: number): Held {
  const objects = Math.min(16, 4 + Math.floor(inputs / 50));
  return { heapBytes: Math.min(32 << 20, (8 << 20) + inputs * (32 << 10)), resources: objects, descriptors: objects };
}

/** Sends inputs to one target: `run-target.ts <name> <inputs> <seed>`, with an IPC channel to `main.ts`. */
async function main([name, count = "", seed = ""]: string[]): Promise<void> {
  const target = targets.find((each) => each.name === name);
  if (target === undefined) throw new Error(`there is no target ${String(name)}`);
  const opened = await target.open();
  let first: Progress | undefined;
  let failed = false;
  const partInputs = Math.max(1, Math.min(mostInPart, Math.floor(Number(count) / leastParts)));
  for (let done = 0, part = 0; done < Number(count) && !failed; part += 1) {
    const numRuns = Math.min(partInputs, Number(count) - done);
    // Each part has its own seed, so that one part can be repeated. Inputs that once failed need to be sent only once.
    const details = await opened.run({ numRuns, seed: Number(seed) + part, ...(part > 0 && { examples: [] }) });
    done += numRuns;
    const failure = details.failed ? fc.defaultReportMessage(details) : undefined;
    const now = first === undefined ? await held() : await settled(first, done);
    const compared = first === undefined ? 0 : done - first.inputs;
    const progress = { ...now, inputs: done, compared, ...(failure !== undefined && { failure }) };
    if (part === warmParts - 1) first = progress;
    const leak = first && leakSince(first, progress);
    failed = details.failed || leak !== undefined;
    await sent(leak === undefined ? progress : { ...progress, failure: leak });
  }
  await opened.close();
  process.disconnect();
}

/** Reads the resources of the process, after up to five seconds in which connections of the last inputs can end. */
async function settled(first: Progress, done: number) {
  for (let attempt = 1; ; attempt += 1) {
    const now = await held();
    if (attempt === 100 || grownSince(first, { ...now, inputs: done }).length === 0) return now;
  }
}

async function held(): Promise<Held> {
  // Work that an input started ends soon after it.
  await new Promise((resolve) => setTimeout(resolve, 50));
  globalThis.gc?.();
  return {
    heapBytes: process.memoryUsage().heapUsed,
    resources: process.getActiveResourcesInfo().length,
    descriptors: readdirSync("/proc/self/fd").length,
  };
}

function grownSince(first: Progress, now: Omit<Progress, "compared">): string[] {
  const more = maxMore(now.inputs - first.inputs);
  return (["heapBytes", "resources", "descriptors"] as const).filter((key) => now[key] > first[key] + more[key]);
}

function leakSince(first: Progress, now: Progress): string | undefined {
  if (grownSince(first, now).length === 0) return undefined;
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
