import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ClusterDirectory } from "./cluster-directory.ts";

/** The file in which a part of a cluster says that it can be used: its process id. The supervisor removes it first. */
export function readySignPath(directory: ClusterDirectory, part: string): string {
  return join(directory.path, `${part}.ready`);
}

export function signReady(path: string): void {
  writeFileSync(`${path}.new`, String(process.pid));
  renameSync(`${path}.new`, path);
}

export function hasSignedReady(path: string, pid: number): boolean {
  try {
    return readFileSync(path, "utf8") === String(pid);
  } catch {
    return false;
  }
}
