import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ClusterDirectory } from "./cluster-directory.ts";

/** The file to which a part of a cluster writes its process id when it is ready. The supervisor removes it first. */
export function readyFilePath(directory: ClusterDirectory, part: string): string {
  return join(directory.path, `${part}.ready`);
}

export function writeReadyFile(path: string): void {
  writeFileSync(`${path}.new`, String(process.pid));
  renameSync(`${path}.new`, path);
}

export function isReadyFileOf(path: string, pid: number): boolean {
  try {
    return readFileSync(path, "utf8") === String(pid);
  } catch {
    return false;
  }
}
