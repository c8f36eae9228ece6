import { RametError } from "../base/errors.ts";
import { exitCodeOf, exitCodes } from "./exit-codes.ts";
import { type Io, printLine } from "./io.ts";

/**
 * Tells of a failure on stderr: the message, the hint and the code, one line each, or one JSON object where the output
 * is JSON. Answers the exit code that fits.
 */
export function reportError(io: Io, thrown: unknown, output?: string): number {
  const { code, message, hint, retryable } = RametError.from(thrown);
  if (output === "json") {
    printLine(
      io.stderr,
      JSON.stringify({ error: { code, message, ...(hint === undefined ? {} : { hint }), retryable } }),
    );
  } else {
    printLine(io.stderr, `error: ${message}`);
    if (hint !== undefined) printLine(io.stderr, hint);
    printLine(io.stderr, `[${code}]`);
  }
  return exitCodeOf(code);
}

/** Tells of a wish that failed in the cluster. That is exit code 1, whatever the cause was. */
export function reportFailure(io: Io, failure: RametError, output?: string): number {
  reportError(io, failure, output);
  return exitCodes.failed;
}

/** What a command does: it answers the exit code. Loaded when it is called, so that `--help` loads nothing. */
type Perform = (io: Io) => Promise<number>;

/** Turns a command line into a call: what commander calls with arguments and options. */
export type Act = <Arguments extends unknown[]>(
  prepare: (...given: Arguments) => Promise<Perform>,
) => (...given: Arguments) => Promise<void>;
