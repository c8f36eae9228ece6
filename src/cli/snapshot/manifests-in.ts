import { readFile } from "node:fs/promises";
import { text as textOf } from "node:stream/consumers";
import { parseAllDocuments } from "yaml";
import { RametError } from "../../base/errors.ts";
import { NamedSnapshotManifest, type NamedSnapshotManifest as Manifest } from "../../api/kinds/named-snapshot.ts";
import type { Io } from "../io.ts";

/**
 * The named snapshots in a file of YAML or JSON.
 * @throws RametError `InvalidArgument`, naming the file and what is wrong with it; `NotFound`
 */
export async function manifestsIn(io: Io, path: string): Promise<Manifest[]> {
  const text = path === "-" ? await textOf(io.stdin) : await read(path);
  return parseAllDocuments(text).flatMap((document) => {
    const [broken] = document.errors;
    if (broken !== undefined) throw illegal(path, broken.message);
    const value: unknown = document.toJS();
    return value === null ? [] : [manifestOf(path, value)];
  });
}

function manifestOf(path: string, value: unknown): Manifest {
  const result = NamedSnapshotManifest.safeParse(value);
  if (!result.success) {
    const [issue] = result.error.issues;
    throw illegal(path, `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "is no NamedSnapshot"}`);
  }
  if (result.data.metadata.name === undefined) throw illegal(path, "metadata.name: is needed");
  // As it was written: what the server fills in is the server's.
  return value as Manifest;
}

async function read(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new RametError("NotFound", `${path} cannot be read: ${RametError.from(cause).message}`, { cause });
  }
}

function illegal(path: string, why: string): RametError {
  return new RametError("InvalidArgument", `${path} holds what is no NamedSnapshot: ${why}`, {
    hint: "See docs/tasks/snapshots.md for what may stand there",
  });
}
