import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { arch } from "node:process";
import type { EngineBuild } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { CellPaths } from "../setting/cell-setting.ts";
import { runProgram } from "../../base/run-program.ts";

const timeoutMilliseconds = 20_000;

/** Which gVisor and which guest these are: a checkpoint's memory can be restored by the very same builds only. */
export async function engineBuild({ runsc, guest }: Pick<CellPaths, "runsc" | "guest">): Promise<EngineBuild> {
  const [{ code, stdout, stderr }, bytes] = await Promise.all([
    runProgram({ program: runsc, args: ["--version"], timeoutMilliseconds }),
    readFile(guest),
  ]);
  const version = /runsc version (\S+)/.exec(stdout)?.[1];
  if (code !== 0 || version === undefined) {
    throw new RametError(
      "EngineFailed",
      `gVisor ${runsc} does not say its version: ${stderr.trim() || `exit ${code}`}`,
    );
  }
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  return { version, architecture: arch === "x64" ? "amd64" : arch, guest: digest };
}
