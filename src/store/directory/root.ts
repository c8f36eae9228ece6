import { stat } from "node:fs/promises";
import { RametError } from "../../base/errors.ts";
import { errnoOf } from "../store-error.ts";

/** Why a store's root cannot be used, as `StoreUnavailable`. It may be a link: where it is, is the operator's choice. */
export async function rootProblem(root: string): Promise<RametError | undefined> {
  try {
    return (await stat(root)).isDirectory() ? undefined : unavailable(root, "it is not a folder");
  } catch (error) {
    const errno = errnoOf(error);
    return unavailable(root, errno === "ENOENT" ? "it does not exist" : (errno ?? String(error)), error);
  }
}

export async function requireRoot(root: string): Promise<void> {
  const problem = await rootProblem(root);
  if (problem !== undefined) throw problem;
}

function unavailable(root: string, why: string, cause?: unknown): RametError {
  return new RametError("StoreUnavailable", `store folder ${root} cannot be used: ${why}`, {
    hint: "Create the folder, or mount the file system that holds it.",
    cause,
  });
}
