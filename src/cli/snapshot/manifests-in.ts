import { readFile } from "node:fs/promises";
import { text as textOf } from "node:stream/consumers";
import { parseAllDocuments } from "yaml";
import { RametError, whyUnreadable } from "../../base/errors.ts";
import { NamedSnapshotManifest, type NamedSnapshotManifest as Manifest } from "../../api/kinds/named-snapshot.ts";
import type { Io } from "../io.ts";

/**
 * Reads the NamedSnapshot manifests of a file in YAML or JSON.
 *
 * @throws RametError `InvalidArgument`, naming the file and the invalid field; `NotFound`
 */
export async function manifestsIn(io: Io, path: string): Promise<Manifest[]> {
  const text = path === "-" ? await textOf(io.stdin) : await read(path);
  return parseAllDocuments(text).flatMap((document) => {
    const [broken] = document.errors;
    if (broken !== undefined) throw invalid(path, broken.message);
    const value: unknown = document.toJS();
    return value === null ? [] : [manifestOf(path, value)];
  });
}

function manifestOf(path: string, value: unknown): Manifest {
  const result = NamedSnapshotManifest.safeParse(value);
  if (!result.success) {
    const [issue] = result.error.issues;
    const field = issue?.path.join(".") ?? "";
    throw invalid(path, `${field === "" ? "" : `${field}: `}${issue?.message ?? "it is not a NamedSnapshot"}`);
  }
  if (result.data.metadata.name === undefined) throw invalid(path, "metadata.name: is required");
  // Return the manifest as written, without the schema's defaults: the API server adds those.
  return value as Manifest;
}

async function read(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new RametError("NotFound", `Cannot read ${path}: ${whyUnreadable(cause)}`, { cause });
  }
}

function invalid(path: string, why: string): RametError {
  return new RametError("InvalidArgument", `${path} is not a valid NamedSnapshot manifest: ${why}`, {
    hint: "See docs/tasks/snapshots.md for the fields",
  });
}
