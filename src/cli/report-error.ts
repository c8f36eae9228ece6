import { RametError } from "../base/errors.ts";
import { exitCodeOf, exitCodes } from "./exit-codes.ts";
import { type Io, printLine } from "./io.ts";

/**
 * Prints a failure to stderr: the message, the hint and the code on a line each, or one JSON object if the output is JSON.
 * Returns the exit code for it.
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

/** Prints a request that failed in the cluster. The exit code is always 1. */
export function reportFailure(io: Io, failure: RametError, output?: string): number {
  reportError(io, withVolumesHint(failure), output);
  return exitCodes.failed;
}

/** The message names the annotation, which commands set by a flag. */
function withVolumesHint(failure: RametError): RametError {
  if (failure.code !== "VolumesNotCaptured") return failure;
  const repeat = "the command with --volumes Empty or --volumes Shared";
  const hint = failure.hint === undefined ? `Repeat ${repeat}` : `${failure.hint}, then repeat ${repeat}`;
  return new RametError(failure.code, failure.message, { hint, cause: failure });
}
