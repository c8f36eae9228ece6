import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

export interface PulumiProcessOptions {
  /** Names the process in the error if it ends before it listens. */
  what: string;
  /** The program and its arguments. */
  program: readonly string[];
  /** The working directory. */
  directory: string;
  /** @default the environment of this process */
  environment?: NodeJS.ProcessEnv;
  /** Called with each line that the process prints, except the port. */
  onLine: (line: string) => void;
}

/** Starts one of Pulumi's own processes. The first line that it prints is the port on which it listens. */
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
