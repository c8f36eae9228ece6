import { lstatSync, readdirSync, readlinkSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { commandLineOf } from "./processes.ts";

export type EngineCommand = "checkpoint" | "restore";

/**
 * Waits until gVisor's command is at work whose state or image is below the folder, and misses none that lives for some milliseconds. One
 * that is held is there before, and finds neither until it is let go on (src/cell/held-command.ts).
 * @returns its pid
 */
export async function engineCommandRuns(command: EngineCommand, directory: string): Promise<number> {
  // On a busy machine, to read what everybody does takes longer than what is waited for: after that, only who is new counts, or held.
  const others = new Set<string>();
  for (const name of readdirSync("/proc")) {
    if (isAtWork(name, command, directory)) return Number(name);
    if (!commandLineOf(name).includes(command)) others.add(name);
  }
  for (const deadline = Date.now() + 30_000; Date.now() < deadline;) {
    for (const name of readdirSync("/proc")) {
      if (!others.has(name) && isAtWork(name, command, directory)) return Number(name);
    }
    await sleep(1);
  }
  throw new Error(`gVisor's ${command} did not come to work below ${directory}`);
}

function isAtWork(pid: string, command: EngineCommand, directory: string): boolean {
  const args = commandLineOf(pid);
  if (!args.includes(command)) return false;
  const state = placeOf(pid, valueOf(args, "--root") ?? "");
  const image = valueOf(args, "--image-path") ?? "";
  return state !== undefined && [state, placeOf(pid, image) ?? image].some((path) => path.startsWith(`${directory}/`));
}

function valueOf(args: readonly string[], flag: string): string | undefined {
  const at = args.indexOf(flag);
  return at < 0 ? undefined : args[at + 1];
}

/** Where a path of the process leads, which may see other files than this one; `undefined`: nowhere. */
function placeOf(pid: string, path: string): string | undefined {
  const seen = `/proc/${pid}/root${path}`;
  try {
    return lstatSync(seen).isSymbolicLink() ? readlinkSync(seen) : path;
  } catch {
    return undefined;
  }
}
