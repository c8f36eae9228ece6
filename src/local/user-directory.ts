import { access, constants, mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { RametError } from "../base/errors.ts";

/** Variables of the XDG base directory specification. */
export type DirectoryVariable = "XDG_CACHE_HOME" | "XDG_DATA_HOME";

/**
 * Ramet's directory below `variable`, or below `fallback` in the user's home if it is not set. It may not exist yet.
 * @throws RametError `InvalidArgument` if the user has no home, as in a container that runs as a numeric user
 */
export function userDirectory(
  environment: Readonly<Record<string, string | undefined>>,
  variable: DirectoryVariable,
  fallback: readonly string[],
): string {
  const xdg = environment[variable];
  // The specification says to ignore relative values.
  return join(xdg?.startsWith("/") === true ? xdg : join(home(variable), ...fallback), "ramet");
}

/**
 * Creates a directory that only the user can access, if it is missing.
 * @throws RametError `Forbidden` if it cannot be created or accessed
 */
export async function makeUserDirectory(path: string, variable: DirectoryVariable): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new RametError("Forbidden", `Creating the directory ${path} failed: ${RametError.from(cause).message}`, {
      hint: `Set ${variable} to a writable directory on a disk with free space`,
      cause,
    });
  }
}

function home(variable: DirectoryVariable): string {
  try {
    return homedir();
  } catch (cause) {
    throw new RametError("InvalidArgument", "Finding your home directory failed: you have none and HOME is not set", {
      hint: `Set HOME or ${variable} to a writable directory`,
      cause,
    });
  }
}
