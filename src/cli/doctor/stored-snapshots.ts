import { readFile } from "node:fs/promises";
import { RametError } from "../../base/errors.ts";
import type { StoredSnapshot } from "../../preflight/cluster-facts.ts";

/**
 * Reads the storage's own list of its snapshots: a handle a line, which can be followed by the time of the snapshot (RFC 3339).
 *
 * @throws RametError `NotFound`, `InvalidArgument`
 */
export async function readStoredSnapshots(path: string): Promise<StoredSnapshot[]> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new RametError("NotFound", `Reading the list of snapshots failed: ${path}`, {
      hint: "Write a file with one handle a line, and name it with --snapshot-handles",
      cause,
    });
  });
  return parseStoredSnapshots(text);
}

/** @throws RametError `InvalidArgument` */
export function parseStoredSnapshots(text: string): StoredSnapshot[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.flatMap((line, index) => {
    if (line === "") return [];
    const [handle = "", createdAt] = line.split(/\s+/);
    if (createdAt !== undefined && Number.isNaN(Date.parse(createdAt)))
      throw new RametError(
        "InvalidArgument",
        `Line ${index + 1} of the list of snapshots has no time after the handle`,
        {
          hint: "Write a handle, or a handle and a time such as 2030-01-01T00:00:00Z",
        },
      );
    return [{ handle, createdAt }];
  });
}
