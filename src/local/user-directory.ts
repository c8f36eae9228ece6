import { access, constants, mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { RametError } from "../base/errors.ts";

/** The variables of the XDG base directory specification that say where a user's files lie. */
export type DirectoryVariable = "XDG_CACHE_HOME" | "XDG_DATA_HOME";

/**
 * Ramet's directory below `variable`, or below `fallback` in the user's home where that is not set. It need not exist.
 * @throws RametError `InvalidArgument` where the user has no home, as in a container that was started with a number for its
 *   user
 */
export function userDirectory(
  environment: Readonly<Record<string, string | undefined>>,
  variable: DirectoryVariable,
  fallback: readonly string[],
): string {
  const xdg = environment[variable];
  // A relative value is to be ignored, says the specification.
  return join(xdg?.startsWith("/") === true ? xdg : join(home(variable), ...fallback), "ramet");
}

/**
 * Makes a directory that is the user's own, if it is not there.
 * @throws RametError `Forbidden` where the user may not, with what to do
 */
export async function makeUserDirectory(path: string, variable: DirectoryVariable): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new RametError("Forbidden", `Making the directory ${path} failed: ${RametError.from(cause).message}`, {
      hint: `Set ${variable} to a directory that you may write to, on a disk that has room.`,
      cause,
    });
  }
}

function home(variable: DirectoryVariable): string {
  try {
    return homedir();
  } catch (cause) {
    throw new RametError("InvalidArgument", "Finding your directory failed: you have no home and HOME is not set", {
      hint: `Set HOME or ${variable} to a directory that you may write to.`,
      cause,
    });
  }
}
