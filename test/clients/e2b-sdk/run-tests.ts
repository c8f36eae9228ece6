import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Checkout } from "./checkout.ts";

export interface SdkRun {
  checkout: Checkout;
  /** The beginning of the command, for names below `localhost`. */
  through: readonly string[];
  /** The variables of `ramet local env`. */
  environment: Record<string, string>;
  /** Paths of test files, or the beginnings of paths. None: all. */
  files: readonly string[];
  /** Where the results are written. */
  output: string;
}

/**
 * Runs a program in a directory, with its output shown. @returns its exit code
 * @throws if it cannot be started
 */
export async function runShown(
  command: readonly string[],
  { cwd, environment = {} }: { cwd: string; environment?: Record<string, string> },
): Promise<number> {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { cwd, env: { ...process.env, ...environment }, stdio: "inherit" });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}

/** @throws if the program fails */
export async function install(command: readonly string[], cwd: string): Promise<void> {
  const code = await runShown(command, { cwd });
  if (code !== 0) throw new Error(`${command.join(" ")} failed in ${cwd}: exit code ${code}`);
}
