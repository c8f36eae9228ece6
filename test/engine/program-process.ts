import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

export interface ProgramOptions {
  /** The program's directory, with an `index.ts` or `index.js`. */
  directory: string;
  project: string;
  stack: string;
  /** The address of the monitor and the engine. */
  address: string;
  preview: boolean;
  configuration: Readonly<Record<string, string>>;
  /** Keys of the configuration that are secrets. */
  secretKeys: readonly string[];
  /** Whether ts-node compiles and checks TypeScript. If false, Node strips the types. */
  typescript: boolean;
  environment: NodeJS.ProcessEnv;
  onLine: (line: string) => void;
  /** Kills the program. */
  signal: AbortSignal;
}

/** Runs a program to its end, as Pulumi's language host for Node does. */
export async function runProgram(options: ProgramOptions): Promise<{ exitCode: number }> {
  const { directory, project, stack, address, preview, onLine } = options;
  // Like Pulumi, use the program's own copy of the SDK: outputs are recognized by their class.
  const run = createRequire(join(directory, "package.json")).resolve("@pulumi/pulumi/cmd/run");
  const flags = {
    monitor: address,
    engine: address,
    organization: "organization",
    project,
    stack,
    pwd: directory,
    "root-directory": directory,
    parallel: "16",
  };
  const words = Object.entries(flags).flatMap(([flag, value]) => [`--${flag}`, value]);
  const child = spawn(process.execPath, [run, ...words, ...(preview ? ["--dry-run"] : []), "."], {
    cwd: directory,
    env: {
      ...options.environment,
      PULUMI_CONFIG: JSON.stringify(options.configuration),
      PULUMI_CONFIG_SECRET_KEYS: JSON.stringify(options.secretKeys),
      PULUMI_NODEJS_TYPESCRIPT: String(options.typescript),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on("line", onLine);
  const end = (): void => void child.kill("SIGKILL");
  options.signal.addEventListener("abort", end, { once: true });
  if (options.signal.aborted) end();
  const [code] = (await once(child, "close")) as [number | null];
  return { exitCode: code ?? 1 };
}
