import { parseArgs } from "node:util";

export const figureNames = [
  "sandbox",
  "checkpoint",
  "clone",
  "warm",
  "writes",
  "rest",
  "growth",
  "claim",
  "recipe",
  "pool",
  "fork",
  "gateway",
  "floods",
  "neighbours",
  "hardening",
  "scale",
  "explain",
  "program",
  "upgrade",
  "moves",
  "interpreter",
  "client-api",
  "volumes",
  "files",
  "captured-files",
  "installs",
] as const;

export const usage = `npm run bench -- [options]

  --n <count>          measurements of each figure (default 30)
  --quick              5 measurements, small processes only: tests the benchmark; its figures mean nothing
  --only <a,b>         of: ${figureNames.join(", ")}
  --level <level>      cell (no Kubernetes), cluster, or all (default all)
  --sizes <a,b>        MiB of touched memory (default 0,256,1024)
  --rounds <count>     of create, checkpoint, clone, delete in "growth" and of atomic captures in "volumes" (default 50)
  --clones <count>     concurrent clones of one checkpoint in "fork" and "files" (default 20, quick 3)
  --objects <count>    Sandboxes in "scale" and, up to 2500, in "explain", and twice as many Checkpoints (default 10000, quick 200)
  --snapshots <count>  in "upgrade" and at once in "volumes" (default 100, quick 4)
  --tune               also measures with huge pages for shmem; changes and restores the machine's setting (root)
  --json <file>        writes all measurements
`;

export type FigureName = (typeof figureNames)[number];

export interface BenchOptions {
  n: number;
  only: ReadonlySet<FigureName>;
  levels: ReadonlySet<"cell" | "cluster">;
  /** Touched memory of the measured process. 0: a small process. */
  sizesMiB: number[];
  rounds: number;
  clones: number;
  objects: number;
  snapshots: number;
  tune: boolean;
  json: string | undefined;
}

/** Parses the command line. Undefined if only help was requested. */
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
      clones: { type: "string" },
      objects: { type: "string" },
      snapshots: { type: "string" },
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
    clones: atLeastOne("--clones", values.clones ?? (quick ? "3" : "20")),
    objects: atLeastOne("--objects", values.objects ?? (quick ? "200" : "10000")),
    snapshots: atLeastOne("--snapshots", values.snapshots ?? (quick ? "4" : "100")),
    tune: values.tune,
    json: values.json,
  };
}

function figureName(text: string): FigureName {
  const found = figureNames.find((name) => name === text);
  if (found === undefined) throw new Error(`--only ${text}: must be one of ${figureNames.join(", ")}`);
  return found;
}

function levels(text: string): ReadonlySet<"cell" | "cluster"> {
  if (text === "all") return new Set(["cell", "cluster"]);
  if (text === "cell" || text === "cluster") return new Set([text]);
  throw new Error(`--level ${text}: must be cell, cluster or all`);
}

function count(flag: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new Error(`${flag} ${text}: must be a whole number`);
  return value;
}

function atLeastOne(flag: string, text: string): number {
  const value = count(flag, text);
  if (value === 0) throw new Error(`${flag} ${text}: must be at least 1`);
  return value;
}
