import { RametError } from "../../base/errors.ts";
import { scratchHint, spaceHint } from "../../store/store-error.ts";

export interface EngineOutput {
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
