import { RametError } from "../../base/errors.ts";
import { withGuest } from "../cluster/cell-access.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { printLine, type Io } from "../io.ts";
import { reportError } from "../report-error.ts";
import { runCommand, type CommandToRun } from "./run-command.ts";

export interface ExecOptions extends ClusterOptions, Omit<CommandToRun, "terminal"> {
  name: string;
  /** Whether the command gets a terminal, if we have one. */
  tty?: boolean;
  user?: string;
}

/** `ramet sandbox exec`: runs a command in a sandbox and ends with its exit code. */
export async function execInSandbox(io: Io, options: ExecOptions): Promise<number> {
  const terminal = options.tty === true ? io.terminal : undefined;
  if (options.tty === true && terminal === undefined) {
    printLine(io.stderr, "-t is ignored: stdin and stdout are no terminal");
  }
  return withCluster(io, options, async (cluster) => {
    const sandbox = await cluster.get(cluster.sandboxes, options.name, io.signal);
    const access = { user: options.user, signal: io.signal };
    return withGuest(cluster, sandbox, access, async (guest) => {
      try {
        return await runCommand(io, guest, { ...options, terminal });
      } catch (error) {
        if (!(error instanceof RametError) || error.code !== "InvalidArgument") throw error;
        reportError(io, error);
        return cannotBeStarted;
      }
    });
  });
}

/** What shells say of a command that is not there. */
const cannotBeStarted = 127;
