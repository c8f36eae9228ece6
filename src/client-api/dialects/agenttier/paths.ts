import { posix } from "node:path";
import { RametError } from "../../../base/errors.ts";

/** The directory of a sandbox's work, in AgentTier that of its volume. */
export const workspace = "/workspace";

/**
 * A path of a client without `.` and `..`.
 * @param root the directory that it must not leave
 * @throws RametError `InvalidArgument`
 */
export function pathBelow(text: string, root = "/"): string {
  const path = posix.normalize(`/${text}`).replace(/(?<=.)\/$/, "");
  if (/[\0\n\r]/.test(path)) throw new RametError("InvalidArgument", "path contains a character that no path may have");
  if (root === "/" || path === root || path.startsWith(`${root}/`)) return path;
  throw new RametError("InvalidArgument", `path must be below ${root}`);
}
