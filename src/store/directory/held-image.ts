import { constants } from "node:fs";
import { link, mkdir, mkdtemp, open, rm, symlink, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { unless } from "./durable.ts";
import { restorePrefix, type Layout } from "./layout.ts";

/** A folder of one restore's own, through which the files stay reachable whatever happens to the checkpoint. */
export interface HeldImage {
  readonly path: string;
  /** Whether the store may be written: what was found out can then be recorded. */
  readonly writable: boolean;
  hold(from: string, name: string): Promise<void>;
  open(name: string): Promise<FileHandle>;
  release(): Promise<void>;
}

/** Hard links in `staging`: no lock, and a removal of the checkpoint takes only its own names. `undefined`: read-only. */
export async function holdByLinks(layout: Layout, checkpointId: string): Promise<HeldImage | undefined> {
  const path = layout.stagingEntry(restorePrefix, checkpointId);
  const made = await unless(
    mkdir(path, { mode: 0o700 }).then(() => true),
    "EROFS",
    "EACCES",
    "EPERM",
  );
  if (made === undefined) return undefined;
  return {
    path,
    writable: true,
    hold: (from, name) => link(from, join(path, name)),
    open: (name) => open(join(path, name), constants.O_RDONLY | constants.O_NOFOLLOW),
    release: () => rm(path, { recursive: true, force: true }),
  };
}

/** Where nothing can be linked, open files keep the content alive, and links to them give gVisor names to open. */
export async function holdByHandles(scratchPath: string): Promise<HeldImage> {
  const path = await mkdtemp(join(scratchPath, "ramet-restore-"));
  const handles: FileHandle[] = [];
  return {
    path,
    writable: false,
    hold: async (from, name) => {
      const handle = await open(from, constants.O_RDONLY | constants.O_NOFOLLOW);
      handles.push(handle);
      await symlink(`/proc/${process.pid}/fd/${handle.fd}`, join(path, name));
    },
    open: (name) => open(join(path, name), constants.O_RDONLY),
    release: async () => {
      await rm(path, { recursive: true, force: true });
      await Promise.all(handles.splice(0).map((handle) => handle.close()));
    },
  };
}
