import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Order } from "./order.ts";

const program = fileURLToPath(new URL("child.ts", import.meta.url));

/** Runs an order until it prints a line, then kills it with SIGKILL. @returns the line */
export async function runChild(order: Order): Promise<string> {
  return firstLine(process.execPath, [program, JSON.stringify(order)]);
}

/**
 * Runs the shell script as root in its own mount namespace. In the script, `$DIR` is the directory, and `{0}`, `{1}` … run
 * the orders.
 * @returns the lines that the script prints
 */
export async function runInOwnMounts(directory: string, script: string, orders: Order[]): Promise<string[]> {
  const steps = orders.map((order) => `'${process.execPath}' '${program}' '${JSON.stringify(order)}'`);
  const filled = script.replaceAll(/\{(\d+)\}/g, (_, index: string) => steps[Number(index)] ?? "false");
  const child = spawn("unshare", ["--user", "--map-root-user", "--mount", "sh", "-euc", filled], {
    env: { ...process.env, DIR: directory },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: string[] = [];
  for await (const line of createInterface(child.stdout)) lines.push(line);
  return lines;
}

async function firstLine(command: string, args: string[]): Promise<string> {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) =>
    child.once("exit", () => {
      resolve();
    }),
  );
  try {
    for await (const line of createInterface(child.stdout)) return line;
    throw new Error("the child exited without output");
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
}
