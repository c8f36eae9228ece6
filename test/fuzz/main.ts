import { parseArgs } from "node:util";
import { fuzzGo, goTargets } from "./go-targets.ts";
import { fuzzProcess, type Outcome } from "./fuzz-process.ts";
import { targets } from "./targets.ts";

/** `npm run fuzz`: sends many inputs to all targets. Fails if one of them crashes, hangs, leaks or breaks its promise. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      inputs: { type: "string", default: "1000000" },
      seed: { type: "string", default: "1" },
      only: { type: "string", default: "" },
      processes: { type: "string", default: "2" },
    },
  });
  const chosen = [...targets.map(inTypeScript), ...(await goTargets()).map(inGo)].filter(({ name }) =>
    name.toLowerCase().includes(values.only.toLowerCase()),
  );
  const shares = chosen.reduce((sum, { share }) => sum + share, 0);
  const waiting = chosen.map(({ leastInputs, ...job }) => ({
    ...job,
    inputs: Math.max(leastInputs, Math.ceil((Number(values.inputs) * job.share) / shares)),
  }));
  const outcomes: Outcome[] = [];
  const work = async (): Promise<void> => {
    for (let job = waiting.shift(); job !== undefined; job = waiting.shift()) {
      const outcome = requireComparison(await job.run(job.inputs, Number(values.seed)));
      outcomes.push(outcome);
      console.log(rowOf(outcome));
      if (outcome.failure !== undefined) console.log(`\n${outcome.failure}\n`);
    }
  };
  console.log(`Fuzzing ${chosen.length} targets with ${values.inputs} inputs, seed ${values.seed}\n\n${header}`);
  await Promise.all(Array.from({ length: Number(values.processes) }, work));
  const failed = outcomes.filter(({ failure }) => failure !== undefined);
  const inputs = outcomes.reduce((sum, outcome) => sum + outcome.inputs, 0);
  console.log(`\n${inputs} inputs, ${failed.length} of ${outcomes.length} targets failed`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}

/** A target that was not searched for leaks did not pass. */
function requireComparison(outcome: Outcome): Outcome {
  if (outcome.failure !== undefined || (outcome.compared ?? 0) > 0) return outcome;
  return { ...outcome, failure: `${outcome.name} ended without a comparison of what its process held` };
}

interface Job {
  name: string;
  share: number;
  /** Fewer inputs would show no leak. */
  leastInputs: number;
  run: (inputs: number, seed: number) => Promise<Outcome>;
}

function inTypeScript({ name, share }: { name: string; share: number }): Job {
  return { name, share, leastInputs: 100, run: (inputs, seed) => fuzzProcess(name, inputs, seed) };
}

/** Go's engine generates inputs much faster, and has no seed. */
function inGo(target: { name: string; packagePath: string }): Job {
  return { name: target.name, share: 10, leastInputs: 1_000, run: (inputs) => fuzzGo(target, inputs) };
}

const header = rowText(["target", "inputs", "seconds", "result", "heap at end", "descriptors", "compared"]);

function rowOf({ name, inputs, seconds, failure, heapBytes, descriptors, compared }: Outcome): string {
  const heap = heapBytes === undefined ? "-" : `${(heapBytes / 2 ** 20).toFixed(1)} MiB`;
  const result = failure === undefined ? "ok" : "FAILED";
  return rowText([
    name,
    String(inputs),
    seconds.toFixed(0),
    result,
    heap,
    String(descriptors ?? "-"),
    String(compared ?? "-"),
  ]);
}

function rowText([name = "", ...rest]: string[]): string {
  return name.padEnd(48) + rest.map((text) => text.padStart(12)).join("");
}

await main();
