import type { Grant } from "../../api/cell/grant.ts";
import { RametError } from "../../base/errors.ts";
import { refused } from "../grant-check.ts";
import { errnoOf, guarded, scratchHint } from "../store-error.ts";
import { kindOfRefusal, refusalError, sayRefusal } from "./refusal.ts";
import { Refused } from "./signed-http.ts";

/** What `operation` gives; what it fails with, as a cell says it. Signed URLs stand in no error, nor in what caused it. */
export function inCell<T>(what: string, grant: Grant, operation: () => Promise<T>): Promise<T> {
  return guarded(what, () =>
    operation().catch((error: unknown) => {
      if (error instanceof Refused) {
        throw kindOfRefusal(error.refusal) === "denied"
          ? refused(grant, sayRefusal(error.refusal))
          : refusalError(what, error.refusal);
      }
      throw localError(what, error);
    }),
  );
}

/** Files lie in the cell's own folder on their way: its room is not the store's. */
function localError(what: string, error: unknown): unknown {
  if (!["ENOSPC", "EDQUOT"].includes(errnoOf(error) ?? "")) return error;
  return new RametError("StoreFull", `${what} failed: the cell's own folder has no room left`, {
    hint: scratchHint,
    cause: error,
  });
}
