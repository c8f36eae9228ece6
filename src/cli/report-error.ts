import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
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

/** The exit codes of `ramet`. `ramet sandbox exec` exits with the exit code of its command instead. */
export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  timeout: 4,
  interrupted: 130,
  brokenPipe: 141,
} as const;

export function exitCodeOf(code: ErrorCode): number {
  switch (code) {
    case "InvalidArgument":
      return exitCodes.usage;
    case "NotFound":
      return exitCodes.notFound;
    case "Timeout":
      return exitCodes.timeout;
    case "Canceled":
      return exitCodes.interrupted;
    default:
      return exitCodes.failed;
  }
}
