import type { CellState, CheckpointResult, Identity } from "../api/cell/cell-api.ts";
import type { Grant } from "../api/cell/grant.ts";
import { comparedParts } from "../api/cell/restore-spec.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import { type Deadline, within } from "../base/within.ts";
import { type CellAddress, CellClient } from "../cell/client/cell-client.ts";
import type { CheckpointLiveness, CheckpointStore } from "../store/checkpoint-store.ts";
import { type Manifest, sizeOf } from "../store/manifest.ts";
import type { Backend, CheckpointHandle, CheckpointRecord, SandboxTarget, Started, Swept } from "./backend.ts";
import type { CellCredentials } from "./cell-credentials.ts";
import { sandboxAccess, type SandboxAccess } from "./sandbox-access.ts";

export interface CellBackendOptions {
  credentials: CellCredentials;
  store: CheckpointStore;
  /** How long a cell may use a grant. @default 600000 */
  grantMilliseconds?: number;
  clock?: Clock;
}

/** Memory and files by gVisor, in the sandbox's own cell; data in Ramet's store. It also runs the sandboxes. */
export interface CellBackend extends Backend, SandboxAccess {
  /** Gives a new sandbox its identity; answers when it can be reached. */
  boot(target: SandboxTarget, identity: Identity): Promise<Started>;
  /**
   * Gives a running sandbox another identity: what it starts from now on has the new environment. The one that it has
   * already changes nothing.
   */
  adopt(target: SandboxTarget, identity: Identity): Promise<CellState>;
  /** Ends a sandbox; its Pod is Succeeded then. A cut that is under way is finished first. */
  stop(target: SandboxTarget, reason: string): Promise<void>;
  /**
   * Frees what crashes and lost objects left in the store longer ago than any grant lives. `standing` is asked right before
   * anything goes; if it throws, the sweep ends there.
   */
  sweep(standing: (handle: CheckpointHandle) => Promise<CheckpointLiveness>, signal: AbortSignal): Promise<Swept>;
  /** Closes idle connections. */
  close(): void;
}

/** Restores hold what they opened for longer than their grant lives; a sweep keeps this many grants' lives away. */
const sweepMargin = 6;

/** A boot, a restore or an end that takes longer has come to nothing: the slowest that was seen took seconds. */
const startMilliseconds = 60_000;

/** Of a terabyte from a slow disk. */
const loadMilliseconds = 3_600_000;

export function cellBackend(options: CellBackendOptions): CellBackend {
  const { credentials, store, grantMilliseconds = 600_000, clock = systemClock } = options;
  const start = { clock, milliseconds: startMilliseconds, hint: whenStartHangs };
  const cells = new CellClient(credentials.key);

  /** A checkpoint from afar is downloaded first, for as long as its grant lives. */
  function restoreBound({ driver }: Grant): Deadline {
    return { ...start, what: "The restore", ...(driver === "objects" && { milliseconds: grantMilliseconds }) };
  }

  async function published(handle: CheckpointHandle): Promise<CheckpointRecord | undefined> {
    const found = await store.find(handle);
    if (found === undefined) return undefined;
    const manifest = await store.manifest({ ...handle, digest: found.manifestDigest });
    return checkpointRecord(manifest, found.manifestDigest);
  }

  return {
    ...sandboxAccess(cells, credentials),
    name: "cell",
    async probe() {
      const { problem } = await store.probe();
      if (problem !== undefined) return { contents: [], problem };
      return { contents: [["memory", "filesystem"], ["filesystem"]] };
    },
    async cut({ source, handle, contents, keepRunning, signal: given }) {
      const grant = await store.grantWrite({ ...handle, ttlMilliseconds: grantMilliseconds });
      // A former attempt may have come to its end with nobody left to hear of it.
      const earlier = await published(handle);
      if (earlier !== undefined) return { handle, cutAt: earlier.cutAt, record: earlier };
      const bound = {
        clock,
        milliseconds: grantMilliseconds,
        what: "The checkpoint",
        hint: whenCutHangs,
        signal: given,
      };
      const wish = { grant, contents, keepRunning };
      const result = await within(bound, (signal) => cells.checkpoint(address(source), wish, signal));
      const manifest = await store.manifest({ ...handle, digest: result.manifestDigest });
      return {
        handle,
        cutAt: result.cutAt,
        record: checkpointRecord(manifest, result.manifestDigest, result),
      };
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
      const wish = { identity, grant, contents };
      return within(restoreBound(grant), (signal) => cells.restore(address(target), wish, signal));
    },
    async swap({ handle, manifestDigest, contents, target, identity, request }) {
      const grant = await store.grantRead({ ...handle, manifestDigest, ttlMilliseconds: grantMilliseconds });
      const wish = { identity, grant, contents, request };
      return within(restoreBound(grant), (signal) => cells.restoreInPlace(address(target), wish, signal));
    },
    async untilLoaded(target) {
      const what = "The loading of the memory";
      await within({ ...start, what, milliseconds: loadMilliseconds }, (signal) =>
        cells.untilLoaded(address(target), signal),
      );
    },
    async remove(handle) {
      await store.remove(handle);
    },
    async boot(target, identity) {
      const boot = (signal: AbortSignal) => cells.boot(address(target), { identity }, signal);
      return { state: await within({ ...start, what: "The start of the sandbox" }, boot), phases: {} };
    },
    async adopt(target, identity) {
      const adopt = (signal: AbortSignal) => cells.identity(address(target), { identity }, signal);
      return within({ ...start, what: "The hand-over of an identity" }, adopt);
    },
    async stop(target, reason) {
      const what = "The end of the sandbox";
      await within({ ...start, what }, (signal) => cells.stop(address(target), reason, signal));
    },
    async sweep(standing, signal) {
      const olderThanMilliseconds = sweepMargin * grantMilliseconds;
      const report = await store.sweep({ livenessOf: standing, olderThanMilliseconds, signal });
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

const whenStartHangs =
  "See with kubectl describe pod and kubectl logs what its node lacks; then delete the Sandbox, and create it anew";
const whenCutHangs =
  "The sandbox was not ended; see with ramet sandbox exec whether it answers, and create another Checkpoint";

/** What a manifest says, and what the cut that made it measured if that is known. */
function checkpointRecord(manifest: Manifest, manifestDigest: string, measured?: CheckpointResult): CheckpointRecord {
  const { contents, cutAt, engine, templateDigest, image, consistency } = manifest;
  return {
    backend: "cell",
    contents,
    manifestDigest,
    sizeBytes: sizeOf(manifest),
    cutAt,
    ...(measured && { readyAt: measured.readyAt, pausedMilliseconds: measured.pausedMilliseconds }),
    templateDigest,
    // From what ran, not from a template that may have changed since.
    template: comparedParts(manifest.container),
    image: image.name,
    ...(image.digest !== undefined && { imageDigest: image.digest }),
    consistency,
    needs: {
      architecture: engine.architecture,
      engine: engine.version,
      platform: engine.platform,
      ...(engine.cpuFeatures && { cpuFeatures: engine.cpuFeatures }),
    },
    ...(measured && { phases: measured.phases }),
  };
}
