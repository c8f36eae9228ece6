import { parseArgs } from "node:util";

export const usage = `npm run bench -- [options]

  --n <count>        how often each figure is taken (default 30)
  --quick            5 times, small processes only: says whether things work, not how fast they are
  --only <a,b>       of: ${["sandbox", "checkpoint", "clone", "writes", "rest", "growth"].join(", ")}
  --level <level>    cell (no Kubernetes), cluster, or all (default all)
  --sizes <a,b>      MiB of touched memory (default 0,256,1024)
  --rounds <count>   of create, checkpoint, clone, delete in "growth" (default 50)
  --tune             also measures with huge pages for shmem; sets the machine so and back again (root)
  --json <file>      writes everything that was measured
`;

export const figureNames = ["sandbox", "checkpoint", "clone", "writes", "rest", "growth"] as const;
export type FigureName = (typeof figureNames)[number];

export interface BenchOptions {
  n: number;
  only: ReadonlySet<FigureName>;
  levels: ReadonlySet<"cell" | "cluster">;
  /** Touched memory of the measured process; 0 is a small one. */
  sizesMiB: number[];
  rounds: number;
  tune: boolean;
  json: string | undefined;
}

/** Reads the command line; undefined when only help was asked for. */
export function benchOptions(args: string[]): BenchOptions | undefined {
  const { values } = parseArgs({
    args,
    options: {
      n: { type: "string" },
      quick: { type: "boolean", default: false },
      only: { type: "string" },
      level: { type: "string", default: "all" },
      sizes: { type: "string" },
      rounds: { type: "string" },
      tune: { type: "boolean", default: false },
      json: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  const { quick } = values;
  return {
    n: count("--n", values.n ?? (quick ? "5" : "30")),
    only: new Set(values.only === undefined ? figureNames : values.only.split(",").map(figureName)),
    levels: levels(values.level),
    sizesMiB: (values.sizes ?? (quick ? "0" : "0,256,1024")).split(",").map((size) => count("--sizes", size)),
    rounds: count("--rounds", values.rounds ?? (quick ? "5" : "50")),
    tune: values.tune,
    json: values.json,
  };
}

function figureName(text: string): FigureName {
  const found = figureNames.find((name) => name === text);
  if (found === undefined) throw new Error(`--only ${text}: there is ${figureNames.join(", ")}`);
  return found;
}

function levels(text: string): ReadonlySet<"cell" | "cluster"> {
  if (text === "all") return new Set(["cell", "cluster"]);
  if (text === "cell" || text === "cluster") return new Set([text]);
  throw new Error(`--level ${text}: there is cell, cluster and all`);
}

function count(flag: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new Error(`${flag} ${text}: must be a whole number`);
  return value;
}
