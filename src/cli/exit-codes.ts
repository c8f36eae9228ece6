import type { ErrorCode } from "../base/error-codes.ts";

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
