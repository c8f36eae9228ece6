import { readFileSync } from "node:fs";

/**
 * Whether the cell is in a user namespace that knows one user only, as `ramet-link pod` makes it for an ordinary user
 * (user_namespaces(7)). Every file that is made on the machine then belongs to that user, and to root in the sandbox.
 */
export function hasOneUserOnly(): boolean {
  try {
    const extents = readFileSync("/proc/self/uid_map", "utf8").trim().split("\n");
    return extents.length === 1 && extents[0]?.trim().split(/\s+/)[2] === "1";
  } catch {
    return false;
  }
}
