import { comparedParts } from "../api/pod/restore-spec.ts";
import type { CheckpointRequest, CheckpointResult, RestoreResult } from "../api/wire/cell-api.ts";
import { engineId } from "../api/engine/engine.ts";
import type { CheckpointPart, PartContents } from "../api/kinds/checkpoint.ts";
import { Contents } from "../api/schema/metadata.ts";
import type { Grant } from "../api/wire/grant.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import { type Deadline, within } from "../base/within.ts";
import type { CellClient } from "../cell/client/cell-client.ts";
import type { CheckpointStore } from "../store/checkpoint-store.ts";
import { isLayer, type Manifest, piecesOf, sizeOf } from "../store/manifest.ts";
import type { Backend, Capture, CheckpointName, CloneRequest, SandboxHolds } from "./backend.ts";
import type { Started } from "./runtime.ts";
import type { CellCredentials } from "./cluster-keys.ts";
import { cellAddress, startDeadline, startOf, identityOf } from "./cell-runtime.ts";

export interface CellBackendOptions {
  cells: CellClient;
  credentials: Pick<CellCredentials, "guestToken">;
  store: CheckpointStore;
  clock?: Clock;
}

/** How long a cell may use a grant. */
const grantMilliseconds = 600_000;

/** A restore holds open files longer than its grant is valid, so a sweep leaves data alone for this many grant lifetimes. */
const sweepMargin = 6;

/** Enough for a terabyte from a slow disk. */
const loadMilliseconds = 3_600_000;

/** Captures memory and files with gVisor, in the sandbox's own cell, into Ramet's store. The handle is the manifest's digest. */
export function cellBackend(options: CellBackendOptions): Backend {
  const { cells, credentials, store, clock = systemClock } = options;

  /** A checkpoint in a bucket is downloaded first, and layers are unpacked, which may take as long as their grants are valid. */
  function restoreDeadline({ driver }: Grant, { layers }: CheckpointPart): Deadline {
    const deadline = startDeadline(clock, "The restore");
    const isLong = driver === "objects" || layers !== undefined;
    return isLong ? { ...deadline, milliseconds: grantMilliseconds } : deadline;
  }

  async function published(name: CheckpointName, isAdopted: boolean): Promise<Capture | undefined> {
    const found = await store.find(name);
    if (found === undefined) return undefined;
    const manifest = await store.manifest({ ...name, digest: found.manifestDigest, isAdopted });
    return captureOf(manifest, found.manifestDigest);
  }

  /** A grant to read the part, and the body of the request to the cell. */
  async function restoreRequest({ name, part, target, environment }: CloneRequest) {
    const { handle: manifestDigest } = part;
    const { namespace } = name;
    const below = (part.layers ?? []).filter((layer) => layer.manifestDigest !== manifestDigest);
    const [grant, ...layers] = await Promise.all(
      [{ ...name, manifestDigest }, ...below].map((one) =>
        store.grantRead({
          namespace,
          checkpointId: one.checkpointId,
          manifestDigest: one.manifestDigest,
          ttlMilliseconds: grantMilliseconds,
        }),
      ),
    );
    if (grant === undefined) throw new RametError("Internal", "a checkpoint has no grant");
    return {
      grant,
      ...(layers.length > 0 && { layers }),
      identity: identityOf(target, environment, credentials),
      contents: Contents.parse(part.contents),
    };
  }

  return {
    name: "cell",
    async probe() {
      const { problem } = await store.probe();
      const contents: PartContents[] = [["memory", "filesystem"], ["filesystem"]];
      if (problem === undefined) return { contents };
      // A store that is nearly full may still have room for this checkpoint. The capture finds out.
      return { contents: problem.code === "StoreFull" ? contents : [], problem };
    },
    holds: cellHolds(cells),
    async capture({ source, name, contents, keepRunning, maxBytes, signal: given, ...more }) {
      const grant = await store.grantWrite({ ...name, ttlMilliseconds: grantMilliseconds });
      // An earlier attempt may have completed after its controller stopped.
      const earlier = await published(name, true);
      if (earlier !== undefined) return earlier;
      const what = "The checkpoint";
      const deadline = { clock, milliseconds: grantMilliseconds, what, hint: captureHint, signal: given };
      // A cell of a release without the limit ignores it. The controllers compare the size again.
      const captured = { grant, contents: Contents.parse(contents), keepRunning };
      const { held, asLayer, findRandomPrograms } = more;
      const body: CheckpointRequest = { ...captured, ...defined({ held, asLayer, findRandomPrograms, maxBytes }) };
      const take = (signal: AbortSignal) => cells.checkpoint(cellAddress(source), body, signal);
      const result = await within(deadline, take);
      const manifest = await store.manifest({ ...name, digest: result.manifestDigest });
      return captureOf(manifest, result.manifestDigest, result);
    },
    async whenReady(name, { isAdopted = false } = {}) {
      const capture = await published(name, isAdopted);
      if (capture !== undefined) return capture;
      throw new RametError(
        "CheckpointLost",
        `cannot use checkpoint ${name.namespace}/${name.checkpointId}: it is not in the store`,
        { hint: "Delete the Checkpoint, and create another one" },
      );
    },
    async clone(request) {
      const body = await restoreRequest(request);
      const restore = (ended: AbortSignal) => cells.restore(cellAddress(request.target), body, ended);
      const result = await within({ ...restoreDeadline(body.grant, request.part), signal: request.signal }, restore);
      return started(result, request.part);
    },
    async restoreInPlace({ request: id, reportsPrograms, ...request }) {
      const body = { ...(await restoreRequest(request)), request: id, ...defined({ reportsPrograms }) };
      const restore = (ended: AbortSignal) => cells.restoreInPlace(cellAddress(request.target), body, ended);
      const result = await within({ ...restoreDeadline(body.grant, request.part), signal: request.signal }, restore);
      return started(result, request.part);
    },
    async untilLoaded(target, signal) {
      const deadline = { ...startDeadline(clock, "Loading the memory"), milliseconds: loadMilliseconds, signal };
      await within(deadline, (ended) => cells.untilLoaded(cellAddress(target), ended));
    },
    async remove(name) {
      await store.remove(name);
    },
    async sweep(liveness, signal) {
      const olderThanMilliseconds = sweepMargin * grantMilliseconds;
      const report = await store.sweep({ livenessOf: liveness, olderThanMilliseconds, signal });
      const { removedCheckpoints: checkpoints, keptCheckpoints: kept, freedBytes, foreign } = report;
      return { checkpoints, kept, orphans: report.removedRests, contents: report.removedContents, freedBytes, foreign };
    },
    has: (name) => store.has(name),
  };
}

function started({ state, phases, programs }: RestoreResult, { layers }: CheckpointPart): Started {
  const ids = layers?.map(({ checkpointId }) => checkpointId);
  const layerBytes = layers?.map(({ sizeBytes }) => sizeBytes);
  return { ...startOf(state), ...defined({ layers: ids, layerBytes, programs }), phases };
}

const captureHint =
  "The sandbox still exists; check with ramet sandbox exec whether it responds, then create another Checkpoint";

/** A manifest as a capture, with the measurements of the call that wrote it, if known. */
function captureOf(manifest: Manifest, manifestDigest: string, measured?: CheckpointResult): Capture {
  const { contents, cutAt, templateDigest, image, consistency, randomPrograms, clonedBytes, leftOut } = manifest;
  return {
    parts: [
      {
        backend: "cell",
        handle: manifestDigest,
        contents,
        cutAt,
        ...defined({ readyAt: measured?.readyAt }),
        sizeBytes: sizeOf(manifest),
        consistency,
        needs: needsOf(manifest),
        ...defined({
          pieces: piecesOf(manifest)?.map((piece) => ({ ...piece, cutAt })),
          layers: layersOf(manifest, manifestDigest),
          randomPrograms,
          clonedBytes,
          leftOut,
        }),
      },
    ],
    isDurable: true,
    details: {
      templateDigest,
      // From the manifest, because the template may have changed since the sandbox started.
      template: comparedParts(manifest.container),
      image: image.name,
      ...defined({
        imageDigest: image.digest,
        addedBytes: measured?.sharedBytes === undefined ? undefined : sizeOf(manifest) - measured.sharedBytes,
        pausedMilliseconds: measured?.pausedMilliseconds,
        phases: measured?.phases,
      }),
    },
  };
}

function layersOf(manifest: Manifest, manifestDigest: string): CheckpointPart["layers"] {
  const { checkpointId, layers } = manifest;
  const own = { checkpointId, manifestDigest, sizeBytes: sizeOf(manifest) };
  return isLayer(manifest) ? [...(layers ?? []), own] : layers;
}

/** Only memory is bound to an engine and a CPU. */
function needsOf({ engine, contents }: Manifest): NonNullable<CheckpointPart["needs"]> {
  const { architecture, version, platform, guest, cpuFeatures } = engine;
  const any = { architecture, engine: version, platform };
  if (!contents.includes("memory")) return any;
  return {
    ...any,
    ...(guest !== undefined && { engineId: engineId({ version, architecture, guest }), guest }),
    ...defined({ cpuFeatures }),
  };
}

/** Pauses sandboxes by their cells. */
function cellHolds(cells: Pick<CellClient, "hold" | "release" | "sync">): SandboxHolds {
  return {
    hold: ({ name: { checkpointId }, source, milliseconds, signal }) =>
      cells.hold(cellAddress(source), { checkpointId, milliseconds }, signal),
    release: ({ name: { checkpointId }, source, signal }) =>
      cells.release(cellAddress(source), { checkpointId }, signal),
    sync: (source, signal) => cells.sync(cellAddress(source), signal),
  };
}
