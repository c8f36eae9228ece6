import { readFile } from "node:fs/promises";
import type { ErrorCode } from "./error-codes.ts";
import { RametError, whyUnreadable } from "./errors.ts";

/**
 * Reads a file.
 * @param what what the message calls it, such as `the token file a`. Default: its path
 * @throws RametError with this code: `Cannot read a: it does not exist`
 */
export async function readText(path: string, what = path, code: ErrorCode = "NotFound"): Promise<string> {
  return readFile(path, "utf8").catch((cause: unknown) => {
    throw new RametError(code, `Cannot read ${what}: ${whyUnreadable(cause)}`, { cause });
  });
}
