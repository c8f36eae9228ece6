import type { ErrorCode } from "../base/error-codes.ts";

/** What `ramet` ends with. `ramet sandbox exec` ends with its command's own code instead. */
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
