import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { acquirePython } from "./python-client.ts";

/** Runs the command line of AgentTier (see `python/agenttier_cli.py`) and returns what it printed. */
export async function agentTierCommand(environment: Record<string, string>, ...args: string[]): Promise<string> {
  const python = await acquirePython("agenttier");
  const program = join(import.meta.dirname, "python", "agenttier_cli.py");
  const env = { ...process.env, ...environment };
  return (await promisify(execFile)(python, ["-B", program, ...args], { env })).stdout;
}
