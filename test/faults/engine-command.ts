import { lstatSync, readdirSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { commandLineOf } from "./processes.ts";

export type EngineCommand = "checkpoint" | "restore";

/**
 * Waits until gVisor's command runs with its state or image below the directory. Finds every command that lives for some
 * milliseconds. A held command starts earlier, and sees neither path until it is released (src/cell/held-command.ts).
 * @returns its pid
 */
export async function engineCommandRuns(command: EngineCommand, directory: string): Promise<number> {
  // On a busy machine, reading every command line takes longer than the command runs. After the first pass, read only
  // new processes and held commands.
  const others = new Set<string>();
  for (const name of readdirSync("/proc")) {
    if (isRunning(name, command, directory)) return Number(name);
    if (!commandLineOf(name).includes(command)) others.add(name);
  }
  for (const deadline = Date.now() + 30_000; Date.now() < deadline;) {
    for (const name of readdirSync("/proc")) {
      if (!others.has(name) && isRunning(name, command, directory)) return Number(name);
    }
    await sleep(1);
  }
  throw new Error(`gVisor's ${command} did not start below ${directory}`);
}

function isRunning(pid: string, command: EngineCommand, directory: string): boolean {
  const args = commandLineOf(pid);
  if (!args.includes(command)) return false;
  const state = resolvedIn(pid, valueOf(args, "--root") ?? "");
  const image = valueOf(args, "--image-path") ?? "";
  return (
    state !== undefined && [state, resolvedIn(pid, image) ?? image].some((path) => path.startsWith(`${directory}/`))
  );
}

function valueOf(args: readonly string[], flag: string): string | undefined {
  const at = args.indexOf(flag);
  return at < 0 ? undefined : args[at + 1];
}

/** Resolves a path in the process's mount namespace. `undefined`: the path does not exist. */
function resolvedIn(pid: string, path: string): string | undefined {
  const seen = `/proc/${pid}/root${path}`;
  try {
    return lstatSync(seen).isSymbolicLink() ? readlinkSync(seen) : path;
  } catch {
    return undefined;
  }
}
