import type { QuiesceCommand } from "../../api/kinds/checkpoint.ts";
import type { ResolvedCheckpointSpec } from "../../api/kinds/checkpoint-spec.ts";
import type { Quiesce } from "../../backends/capture-parts.ts";
import type { SandboxGuest } from "../../backends/runtime.ts";
import { type Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { visible } from "../../base/visible.ts";
import { within } from "../../base/within.ts";

interface QuiesceContext {
  guest: () => Pick<SandboxGuest, "startProcess">;
  clock: Clock;
  signal: AbortSignal;
}

const defaultTimeoutSeconds = 10;
/** The guest kills a command after its time. This is for a guest that does not answer. */
const graceMilliseconds = 5_000;
/** The part of the output that an error repeats. */
const mostOutputBytes = 300;

/** The commands of a Checkpoint, to be run in its sandbox. */
export function quiesceWith({ before, after }: ResolvedCheckpointSpec["quiesce"], context: QuiesceContext): Quiesce {
  return {
    before: () => run("quiesce.before", before, context),
    after: () => run("quiesce.after", after, context),
  };
}

/**
 * Runs a command. Returns why it has failed if the capture continues anyway.
 * @throws RametError `QuiesceFailed`; a retryable error if the sandbox cannot be reached
 */
async function run(
  field: string,
  given: QuiesceCommand | undefined,
  { guest, clock, signal }: QuiesceContext,
): Promise<string | undefined> {
  if (given === undefined) return undefined;
  const { timeoutSeconds = defaultTimeoutSeconds, onFailure = "Abort" } = given;
  const milliseconds = timeoutSeconds * 1000;
  const deadline = { clock, milliseconds: milliseconds + graceMilliseconds, what: `The command in ${field}`, signal };
  const problem = await within(deadline, (ended) => problemOf(guest(), { ...given, milliseconds }, ended)).catch(
    (thrown: unknown) => {
      const error = RametError.from(thrown);
      if (error.retryable || error.code === "Canceled") throw error;
      return error.message;
    },
  );
  if (problem === undefined) return undefined;
  const message = `The command in ${field} failed: ${problem}`;
  if (onFailure === "Continue") return message;
  throw new RametError("QuiesceFailed", message, {
    hint: `Correct the command, or set ${field}.onFailure to Continue`,
  });
}

async function problemOf(
  guest: Pick<SandboxGuest, "startProcess">,
  { command: [program = "", ...args], milliseconds }: QuiesceCommand & { milliseconds: number },
  signal: AbortSignal,
): Promise<string | undefined> {
  let output = "";
  const events = guest.startProcess({ command: program, args, timeoutMilliseconds: milliseconds }, signal);
  for await (const event of events) {
    if (event.type === "data") output = `${output}${event.data.toString()}`.slice(-mostOutputBytes);
    if (event.type !== "end") continue;
    if (event.exitCode === 0) return undefined;
    return `exit code ${event.exitCode}${output === "" ? "" : `: ${visible(output.trim())}`}`;
  }
  throw new RametError("GuestUnreachable", "the connection ended before the command did", { retryable: true });
}
