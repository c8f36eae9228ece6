import { Connection, type ConnectionOptions } from "./connection.ts";

/** Ramet's own client: fetch only, for Node 20, Bun, Deno and browsers. */
export { RametError } from "./answer.ts";
export { Connection, type ConnectionOptions } from "./connection.ts";
export {
  type EntryInfo,
  type Files,
  type FilesystemEvent,
  type WatchHandle,
  type WatchOptions,
  type WriteEntry,
} from "./files.ts";
export {
  CommandExitError,
  type CommandHandle,
  type CommandOptions,
  type CommandResult,
  type Commands,
  type ProcessInfo,
  type Pty,
  type PtyOptions,
} from "./processes.ts";
export {
  type Checkpoint,
  type Checkpoints,
  type NewCheckpoint,
  type Programs,
  type Restored,
  Sandbox,
  type SandboxInfo,
  type SandboxOptions,
} from "./sandbox.ts";

export interface NamedSnapshot {
  name: string;
  /** The current one. */
  version: number | null;
  state: string;
  versions: SnapshotVersion[];
}

export interface SnapshotVersion {
  version: number;
  /** What `Sandbox.create({ snapshot })` takes: `name@7`. */
  reference: string;
  digest: string;
  checkpoint_id: string;
  created_at: string;
  size_bytes: number | null;
  parent: string | null;
  is_current: boolean;
}

export interface SnapshotDiff {
  from: string;
  to: string;
  /** The fields in which they differ. Null: a version does not have it. */
  changes: { field: string; from: unknown; to: unknown }[];
  /** The steps in which they differ. Null: an earlier release has built one of them. */
  recipe: { from?: { step: number; text: string }; to?: { step: number; text: string } }[] | null;
}

/** The named snapshots of the namespace. */
export const snapshots = {
  list: (options: ConnectionOptions = {}): Promise<{ snapshots: NamedSnapshot[] }> => get("/snapshots", options),
  versions: (name: string, options: ConnectionOptions = {}): Promise<NamedSnapshot> =>
    get(`/snapshots/${encodeURIComponent(name)}`, options),
  /** Compares two versions: `diff("a@1", "a@2")`. */
  diff: (from: string, to: string, options: ConnectionOptions = {}): Promise<SnapshotDiff> =>
    get(`/diff?${new URLSearchParams({ from, to }).toString()}`, options),
};

function get<T>(path: string, { signal, ...options }: ConnectionOptions): Promise<T> {
  return new Connection(options).api("GET", path, undefined, { signal });
}
