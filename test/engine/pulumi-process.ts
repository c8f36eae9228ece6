import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

export interface PulumiProcessOptions {
  /** What it is, for the error when it ends at once. */
  what: string;
  /** The program and its arguments; the folder in which it runs. */
  program: readonly string[];
  directory: string;
  /** @default this process' own */
  environment?: NodeJS.ProcessEnv;
  /** What the process prints, line by line. */
  onLine: (line: string) => void;
}

/** Starts one of Pulumi's own processes, each of which prints first at which port it listens. */
export async function startPulumiProcess(
  options: PulumiProcessOptions,
): Promise<{ child: ChildProcess; port: number }> {
  const { what, program, directory: cwd, environment: env, onLine } = options;
  const child = spawn(process.execPath, program, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const port = await new Promise<number>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => {
      reject(new Error(`${what} ended with ${code ?? "a signal"}`));
    });
    let isFirst = true;
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (isFirst) resolve(Number(line));
      else onLine(line);
      isFirst = false;
    });
    createInterface({ input: child.stderr }).on("line", onLine);
  });
  return { child, port };
}
