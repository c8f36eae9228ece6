import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";

/** The pause of a sandbox is limited too. */
const timeoutMilliseconds = 20_000;

/**
 * Writes to its disk what the node's kernel has in memory of each mounted file system (syncfs(2)). Node.js has no such call, so this
 * starts coreutils' `sync`.
 * @throws RametError `Timeout`; `EngineFailed` if a file system cannot be written
 */
export async function syncMounts(paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return;
  const { code, stderr } = await runProgram({
    program: "sync",
    args: ["--file-system", "--", ...paths],
    timeoutMilliseconds,
  });
  if (code === 0) return;
  throw new RametError("EngineFailed", `Flushing the volumes failed: ${stderr.trim().slice(0, 500)}`);
}
