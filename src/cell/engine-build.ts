import { arch } from "node:process";
import type { EngineBuild } from "../api/cell.ts";
import { RametError } from "../api/errors.ts";
import { runProgram } from "./run-program.ts";

const timeoutMilliseconds = 20_000;

/** Which gVisor this `runsc` is: a checkpoint's memory can be restored by the very same build only. */
export async function engineBuild(runsc: string): Promise<EngineBuild> {
  const { code, stdout, stderr } = await runProgram({ program: runsc, args: ["--version"], timeoutMilliseconds });
  const version = /runsc version (\S+)/.exec(stdout)?.[1];
  if (code !== 0 || version === undefined) {
    throw new RametError(
      "EngineFailed",
      `gVisor ${runsc} does not say its version: ${stderr.trim() || `exit ${code}`}`,
    );
  }
  return { version, architecture: arch === "x64" ? "amd64" : arch };
}
