import { parseArgs } from "node:util";
import { faultKindNames, type FaultKind } from "./plan.ts";

export const usage = `npm run test:faults -- [options]

Without --long: the short suite, with vitest's options.

  --long             inject planned faults into a local cluster, and check each operation, sandbox and orphan
  --faults <count>   faults to inject (default 1000)
  --seed <n>         choose kinds, steps and instants; the same seed gives the same plan (default: from the clock)
  --only <a,b>       of: ${faultKindNames.join(", ")}
  --fault <index>    inject only this fault of the plan, alone
  --lanes <count>    operations at the same time (default 4)
  --life <count>     batches before the cluster is emptied and its orphans are counted (default 5)
  -o json            print the report as JSON

For example, to repeat one fault: npm run test:faults -- --long --seed 7 --fault 42
`;

export interface LongOptions {
  seed: number;
  faults: number;
  kinds: readonly FaultKind[];
  /** The index of the only fault to inject. */
  only: number | undefined;
  lanes: number;
  batchesPerLife: number;
  json: boolean;
}

/** Parses the command line. Undefined if only help was requested. */
export function longOptions(args: readonly string[]): LongOptions | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      long: { type: "boolean" },
      faults: { type: "string", default: "1000" },
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      only: { type: "string" },
      fault: { type: "string" },
      lanes: { type: "string", default: "4" },
      life: { type: "string", default: "5" },
      output: { type: "string", short: "o", default: "text" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  if (values.output !== "json" && values.output !== "text")
    throw new Error(`-o ${values.output}: must be text or json`);
  return {
    seed: count("--seed", values.seed, 0),
    faults: count("--faults", values.faults, 1),
    kinds: values.only === undefined ? faultKindNames : values.only.split(",").map(kindOf),
    only: values.fault === undefined ? undefined : count("--fault", values.fault, 0),
    lanes: count("--lanes", values.lanes, 1),
    batchesPerLife: count("--life", values.life, 1),
    json: values.output === "json",
  };
}

function kindOf(text: string): FaultKind {
  const found = faultKindNames.find((name) => name === text);
  if (found === undefined) throw new Error(`--only ${text}: must be one of ${faultKindNames.join(", ")}`);
  return found;
}

function count(flag: string, text: string, least: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < least)
    throw new Error(`${flag} ${text}: must be a whole number of at least ${least}`);
  return value;
}
