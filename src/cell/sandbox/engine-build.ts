// Text of gVisor is parsed only here: what `runsc` prints about itself, and why one of its commands has failed.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { EngineBuild } from "../../api/engine/engine.ts";
import { goArchitecture } from "../../base/machine.ts";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";
import type { CellPaths } from "../setting/cell-setting.ts";
import { scratchHint, spaceHint } from "../../store/store-error.ts";

/**
 * Returns the versions of gVisor and of the guest, and the features of the CPU. Only the same builds can restore a checkpoint's
 * memory, on a CPU with at least the same features. A CPU without known features is an error: its memory would be restored anywhere.
 *
 * @throws RametError `EngineFailed` if gVisor does not print one of them
 */
export async function engineBuild({ runsc, guest }: Pick<CellPaths, "runsc" | "guest">): Promise<EngineBuild> {
  const [version, features, bytes] = await Promise.all([
    printed(runsc, "--version", /runsc version (\S+)/),
    printed(runsc, "cpu-features", /^\s*(\S+)/),
    readFile(guest),
  ]);
  return {
    version,
    architecture: goArchitecture,
    guest: `sha256:${createHash("sha256").update(bytes).digest("hex")}`,
    cpuFeatures: features.split(",").filter(Boolean),
  };
}

const timeoutMilliseconds = 20_000;

/** A process may fail to start threads on a busy node, so it is tried again. */
const attempts = 3;

async function printed(runsc: string, argument: string, pattern: RegExp): Promise<string> {
  let problem = "";
  for (let attempt = 0; attempt < attempts; attempt++) {
    const { code, stdout, stderr } = await runProgram({ program: runsc, args: [argument], timeoutMilliseconds });
    const found = code === 0 ? pattern.exec(stdout)?.[1] : undefined;
    if (found !== undefined) return found;
    problem = stderr.trim() || (code === 0 ? "it printed something else" : `exit status ${code}`);
  }
  throw new RametError("EngineFailed", `${runsc} ${argument} failed: ${problem}`);
}

interface EngineOutput {
  /** A command of gVisor, such as `checkpoint`. */
  command: string;
  /** The text on stderr, else the end of its log. */
  output: string;
  /** Where it wrote or read a checkpoint. */
  imagePath: string | undefined;
}

/** The error for a failed gVisor command. gVisor ends its output with the stack of Go, which says nothing to a user. */
export function engineFailure({ command, output, imagePath }: EngineOutput): RametError {
  const what = `gVisor ${command} failed`;
  if (output.includes(noSpace)) {
    const where = imagePath === undefined ? "" : ` in ${imagePath}`;
    return new RametError("StoreFull", `${what}: ${noSpace}${where}`, {
      hint: `${spaceHint}; where the store is a bucket: ${scratchHint}`,
    });
  }
  const lines = output.trim().split("\n");
  return new RametError(
    "EngineFailed",
    `${what}: ${(lines.findLast((line) => !isStack(line)) ?? lines.at(-1) ?? "").trim()}`,
  );
}

const noSpace = "no space left on device";

/** `goroutine 1 [running]:`, `\tgvisor.dev/gvisor/pkg/urpc/urpc.go:472 +0x6b`, `main.main()`, `created by …`. */
function isStack(line: string): boolean {
  return (
    line.trim() === "" ||
    /^goroutine \d+|\.go:\d+( \+0x[0-9a-f]+)?$|^created by |^[\w./*()-]+\((\{?0x|\.\.\.|\)|{)/.test(line.trim())
  );
}
