import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Outcome } from "./fuzz-process.ts";

const native = join(import.meta.dirname, "../../native");

/** A fuzz test in `native`. */
export interface GoTarget {
  /** `link/internal/policy FuzzRule`. */
  name: string;
  /** The directory of its package, below `native`. */
  packagePath: string;
}

export async function goTargets(): Promise<GoTarget[]> {
  const files = await readdir(native, { recursive: true });
  const found: GoTarget[] = [];
  for (const file of files.filter((each) => each.endsWith("_test.go")).sort()) {
    const packagePath = dirname(file);
    const text = await readFile(join(native, file), "utf8");
    for (const [, test] of text.matchAll(/^func (Fuzz\w+)\(f \*testing\.F\)/gm)) {
      found.push({ name: `${packagePath} ${test ?? ""}`, packagePath });
    }
  }
  return found;
}

/** The longest time of one target. Go's engine ends it after as many inputs as it is told. */
const timeoutMilliseconds = 3_600_000;

/** Runs one target with Go's engine. An input that fails is kept in the package's `testdata/fuzz`. */
export async function fuzzGo({ name, packagePath }: GoTarget, inputs: number): Promise<Outcome> {
  const since = performance.now();
  const figures = await mkdtemp(join(tmpdir(), "ramet-fuzz-"));
  const test = name.split(" ")[1] ?? "";
  const args = ["test", "-run=^$", `-fuzz=^${test}$`, `-fuzztime=${inputs}x`, "-parallel=1", `./${packagePath}`];
  const environment = { ...process.env, RAMET_FUZZ_FIGURES: figures, RAMET_FUZZ_INPUTS: String(inputs) };
  try {
    const failure = await new Promise<string | undefined>((resolve) => {
      const options = { cwd: native, env: environment, timeout: timeoutMilliseconds, maxBuffer: 1 << 26 };
      execFile("go", args, options, (error, stdout, stderr) => {
        resolve(error === null ? undefined : `${stdout.slice(-4_000)}${stderr.slice(-4_000)}`);
      });
    });
    const [last] = await readdir(figures);
    const held = last === undefined ? undefined : await figuresIn(join(figures, last));
    return {
      name,
      inputs: failure === undefined ? inputs : 0,
      seconds: (performance.now() - since) / 1000,
      ...(failure !== undefined && { failure }),
      ...held,
    };
  } finally {
    await rm(figures, { recursive: true });
  }
}

/** Reads the last resources of the engine's process, once they were compared with those before (`native/internal/fuzzcheck`). */
async function figuresIn(path: string): Promise<Figures> {
  const { heapBytes, descriptors, compared } = JSON.parse(await readFile(path, "utf8")) as Figures;
  return { heapBytes, descriptors, compared };
}

type Figures = Required<Pick<Outcome, "heapBytes" | "descriptors" | "compared">>;
