import type { CellState, EngineBuild, RestoreRequest } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { type Manifest, sizeOf } from "../../store/manifest.ts";
import { openForRead } from "../../store/open.ts";
import type { SandboxOrigin } from "../sandbox/sandbox.ts";

/** A checkpoint that is held open for one restore, and that can be restored here. */
export interface RestoreSource {
  origin: SandboxOrigin;
  /** How its memory will be when the restore has returned; absent where files alone are restored. */
  memory: CellState["memory"];
  /** How often its memory has been given an identity, where that was recorded; 0 where files alone are restored. */
  generation: number | undefined;
  /** To be called when gVisor has opened what it needs. Nobody waits for it, and what fails is left to the sweep. */
  release(): void;
}

export interface RestoreSourceOptions {
  /** The cell's own folder. */
  directory: string;
  build: () => Promise<EngineBuild>;
  report: (message: string, detail?: Record<string, unknown>) => void;
}

/** A checkpoint of up to that many bytes is read before its clone goes on: that is over before it would answer. */
const atOnceBytes = 32 * 2 ** 20;

/** @throws RametError `NeedNotMet`, and those of `openForRead` */
export async function openRestoreSource(
  { grant, contents }: RestoreRequest,
  { directory, build, report }: RestoreSourceOptions,
): Promise<RestoreSource> {
  const session = await openForRead(grant, { scratchPath: directory });
  const { manifest, imagePath } = session;
  const release = (): void => {
    session.release().catch((error: unknown) => {
      report("a restore's folder was left to the sweep", { message: RametError.from(error).message });
    });
  };
  const unmet = await build().then(
    (own) => unmetNeed(manifest, own),
    (error: unknown) => RametError.from(error),
  );
  if (unmet !== undefined) {
    release();
    throw unmet;
  }
  if (!contents.includes("memory"))
    return { origin: { filesystemTar: `${imagePath}/filesystem.tar` }, memory: undefined, generation: 0, release };
  const background = sizeOf(manifest) > atOnceBytes;
  const { generation } = manifest;
  return { origin: { imagePath, background }, memory: background ? "loading" : "loaded", generation, release };
}

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
