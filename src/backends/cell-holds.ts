import { RametError } from "../base/errors.ts";
import type { CellClient } from "../cell/client/cell-client.ts";
import type { SandboxHolds } from "./backend.ts";
import { cellAddress } from "./cell-runtime.ts";

/** Pauses sandboxes by their cells. */
export function cellHolds(cells: Pick<CellClient, "hold" | "release" | "sync">): SandboxHolds {
  return {
    async hold({ name: { checkpointId }, source, milliseconds, signal }) {
      await cells.hold(cellAddress(source), { checkpointId, milliseconds }, signal).catch(unsupported(source.name));
    },
    release: ({ name: { checkpointId }, source, signal }) =>
      cells.release(cellAddress(source), { checkpointId }, signal),
    async sync(source, signal) {
      await cells.sync(cellAddress(source), signal).catch(unsupported(source.name));
    },
  };
}

/** A cell of an earlier release does not know the operations. */
function unsupported(sandbox: string): (thrown: unknown) => never {
  return (thrown) => {
    const error = RametError.from(thrown);
    if (error.code !== "NotFound") throw error;
    throw new RametError("NotSupported", `The cell of ${sandbox} is of a release that cannot flush or hold volumes`, {
      hint: "Pause and resume the sandbox, which gives it a cell of this release, or use consistency crash",
      cause: error,
    });
  };
}
