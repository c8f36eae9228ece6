import type { Identity } from "../api/cell.ts";
import { RametError } from "../api/errors.ts";
import { CellClient, type CellAddress } from "../cell/client/cell-client.ts";
import type { CheckpointStanding, CheckpointStore } from "../store/checkpoint-store.ts";
import type { Backend, CheckpointHandle, CheckpointRecord, SandboxTarget, Started, Swept } from "./backend.ts";
import type { CellCredentials } from "./cell-credentials.ts";
import { checkpointRecord } from "./checkpoint-record.ts";

export interface CellBackendOptions {
  credentials: CellCredentials;
  store: CheckpointStore;
  /** How long a cell may use a grant. @default 600000 */
  grantMilliseconds?: number;
}

/** Memory and files by gVisor, in the sandbox's own cell; data in Ramet's store. It also runs the sandboxes. */
export interface CellBackend extends Backend {
  /** Gives a new sandbox its identity; answers when it can be reached. */
  boot(target: SandboxTarget, identity: Identity): Promise<Started>;
  /** Ends a sandbox; its Pod is Succeeded then. A cut that is under way is finished first. */
  stop(target: SandboxTarget, reason: string): Promise<void>;
  /**
   * Frees what crashes and lost objects left in the store longer ago than any grant lives. `standing` is asked right before
   * anything goes; if it throws, the sweep ends there.
   */
  sweep(standing: (handle: CheckpointHandle) => Promise<CheckpointStanding>, signal: AbortSignal): Promise<Swept>;
  /** Closes idle connections. */
  close(): void;
}

/** Restores hold what they opened for longer than their grant lives; a sweep keeps this many grants' lives away. */
const sweepMargin = 6;

export function cellBackend({ credentials, store, grantMilliseconds = 600_000 }: CellBackendOptions): CellBackend {
  const cells = new CellClient(credentials.key);

  async function published(handle: CheckpointHandle): Promise<CheckpointRecord | undefined> {
    const found = await store.find(handle);
    if (found === undefined) return undefined;
    const manifest = await store.manifest({ ...handle, digest: found.manifestDigest });
    return checkpointRecord(manifest, found.manifestDigest);
  }

  return {
    name: "cell",
    async probe() {
      const { problem } = await store.probe();
      if (problem !== undefined) return { contents: [], problem };
      return { contents: [["memory", "filesystem"], ["filesystem"]] };
    },
    async cut({ source, handle, contents, keepRunning }) {
      const grant = await store.grantWrite({ ...handle, ttlMilliseconds: grantMilliseconds });
      // A former attempt may have come to its end with nobody left to hear of it.
      const earlier = await published(handle);
      if (earlier !== undefined) return { handle, cutAt: earlier.cutAt, record: earlier };
      const result = await cells.checkpoint(address(source), { grant, contents, keepRunning });
      const manifest = await store.manifest({ ...handle, digest: result.manifestDigest });
      return { handle, cutAt: result.cutAt, record: checkpointRecord(manifest, result.manifestDigest, result) };
    },
    async whenReady(handle) {
      const record = await published(handle);
      if (record !== undefined) return record;
      throw new RametError(
        "CheckpointLost",
        `checkpoint ${handle.namespace}/${handle.checkpointId} cannot be used: it is not in the store`,
        { hint: "Delete the Checkpoint and take it again" },
      );
    },
    async clone({ handle, manifestDigest, contents, target, identity }) {
      const grant = await store.grantRead({ ...handle, manifestDigest, ttlMilliseconds: grantMilliseconds });
      return cells.restore(address(target), { identity, grant, contents });
    },
    async remove(handle) {
      await store.remove(handle);
    },
    async boot(target, identity) {
      return { state: await cells.boot(address(target), { identity }), phases: {} };
    },
    async stop(target, reason) {
      await cells.stop(address(target), reason);
    },
    async sweep(standing, signal) {
      const olderThanMilliseconds = sweepMargin * grantMilliseconds;
      const report = await store.sweep({ standing, olderThanMilliseconds, signal });
      const { removedCheckpoints: checkpoints, removedRests: rests, removedContents: contents } = report;
      return { checkpoints, rests, contents, freedBytes: report.freedBytes, foreign: report.foreign };
    },
    close() {
      cells.close();
    },
  };
}

function address({ ip, sandboxUid }: SandboxTarget): CellAddress {
  return { ip, sandboxUid };
}
