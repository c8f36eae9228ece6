import type { EngineBuild } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import type { Manifest } from "../../store/manifest.ts";

type Needing = Pick<Manifest, "checkpointId" | "contents" | "engine">;

/** What a checkpoint needs and this cell has not, if there is such a thing. Files alone need the architecture only. */
export function unmetNeed({ checkpointId, contents, engine }: Needing, own: EngineBuild): RametError | undefined {
  const unmet = (need: string, has: string, hint: string): RametError =>
    new RametError("NeedNotMet", `The checkpoint ${checkpointId} cannot be restored here: it needs ${need}, ${has}`, {
      hint,
    });
  if (engine.architecture !== own.architecture) {
    return unmet(
      `a node of the architecture ${engine.architecture}`,
      `and this one is ${own.architecture}`,
      `Give the clone's template the nodeSelector kubernetes.io/arch: ${engine.architecture}`,
    );
  }
  if (contents.includes("memory") && engine.version !== own.version) {
    return unmet(
      `gVisor ${engine.version}`,
      `and the cell has ${own.version}`,
      "Run the cell image that it was taken with, or take it again with this one; a checkpoint of [filesystem] is not bound to a build",
    );
  }
  if (contents.includes("memory") && engine.guest !== undefined && engine.guest !== own.guest) {
    return unmet(
      `the guest ${short(engine.guest)}`,
      `and the cell has ${short(own.guest)}`,
      "Run the release of Ramet that it was taken with, or take it again with this one; a checkpoint of [filesystem] is not bound to a build",
    );
  }
  return undefined;
}

function short(digest: string): string {
  return digest.slice(0, "sha256:".length + 12);
}
