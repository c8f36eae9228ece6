import { type Checkpoint, volumeParts } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import { labels, restoreFrom } from "../../api/names/labels.ts";
import { compareTemplate } from "../../api/snapshot/template-difference.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { isCloneable } from "../../api/state/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { currentRevision } from "../../operations/claim/cold-sandbox.ts";
import type { ServiceParts } from "./parts.ts";
import { currentSource, hasExpired, type Source, startsWithProbes } from "./source.ts";

/** A template, and the checkpoint with whose content a sandbox of it starts. */
export interface StartUnder {
  source: Exclude<Source, { kind: "checkpoint" }>;
  checkpointId: string;
  /** Whether the checkpoint can be restored in a ready sandbox of the template that fits. */
  isInPlace: boolean;
  /** Whether the ready sandboxes of the template were restored from it already, so that a claim is enough. */
  isRestored: boolean;
  fits: (sandbox: Sandbox) => boolean;
  /** Whether the source of the checkpoint had volumes that are not in it. */
  lacksVolumes: boolean;
}

/**
 * Finds a snapshot, and checks that it can start under the template of a source, before anything is created or claimed.
 * @throws RametError `NotFound`, also for a snapshot that has expired; `CheckpointNotReady`; `TemplateMismatch`; `InvalidArgument` for a
 *   source that is a snapshot itself
 */
export async function startUnder(
  parts: ServiceParts,
  { namespace, source, signal }: { namespace: string; source: Source; signal: AbortSignal },
  snapshot: string,
): Promise<StartUnder> {
  const checkpoint = await findCheckpoint(parts, { namespace, signal }, snapshot);
  if (source.kind === "checkpoint") {
    throw new RametError("InvalidArgument", `The template ${source.reference} is a snapshot itself`, {
      hint: "Name a SandboxTemplate or a SandboxSet, whose template the snapshot starts under",
    });
  }
  const { hash, spec } = revisionOf(parts, namespace, source);
  const { checkpointId = "", ramet: { contents = ["memory"], parts: captured, volumes = [], engine } = {} } =
    checkpoint.status ?? {};
  if (hash !== undefined && restoreFrom({ metadata: {}, spec: {} }, spec.template) === checkpointId) {
    const fits = ({ metadata }: Sandbox): boolean => metadata.labels?.[labels.templateHash] === hash;
    return { source, checkpointId, isInPlace: false, isRestored: true, fits, lacksVolumes: false };
  }
  const hasMemory = contents.includes("memory");
  const { mismatch } = compareTemplate(checkpoint, parsePodTemplate(spec.template, "template"), hasMemory);
  if (mismatch !== undefined) throw mismatch;
  const lacksVolumes = volumes.length > 0;
  return {
    source,
    checkpointId,
    isRestored: false,
    isInPlace: !lacksVolumes && volumeParts(captured).length === 0 && !startsWithProbes(checkpoint, spec),
    fits: ({ status }) => !hasMemory || status?.ramet?.engine === engine,
    lacksVolumes,
  };
}

/**
 * The checkpoint of a snapshot: of an id, or of a named snapshot and its version. A set or a template of the same name does not count.
 * @throws RametError `NotFound`; `CheckpointNotReady`
 */
export async function findCheckpoint(
  parts: ServiceParts,
  { namespace, signal }: { namespace: string; signal: AbortSignal },
  snapshot: string,
): Promise<Checkpoint> {
  const known = { ...parts.known, set: () => undefined, template: () => undefined };
  const found = await currentSource({ ...parts, known, aliases: new Map() }, namespace, snapshot, signal).catch(
    (error: unknown) => {
      throw RametError.from(error).code === "NotFound" ? unknownSnapshot(snapshot) : error;
    },
  );
  const checkpoint = found.kind === "checkpoint" ? found.checkpoint : undefined;
  if (checkpoint === undefined || hasExpired(parts, checkpoint)) throw unknownSnapshot(snapshot);
  if (isCloneable(checkpoint)) return checkpoint;
  throw new RametError("CheckpointNotReady", `The snapshot ${snapshot.slice(0, 80)} has no content that can be used`);
}

export function unknownSnapshot(id: string): RametError {
  return new RametError("NotFound", `The snapshot ${id.slice(0, 80)} does not exist`);
}

/** @returns the hash of the sandboxes of a set, too */
function revisionOf(
  { known }: Pick<ServiceParts, "known">,
  namespace: string,
  source: StartUnder["source"],
): { hash?: string; spec: SandboxTemplateSpec } {
  if (source.kind === "set") return currentRevision(source.set, known);
  return { spec: known.template(`${namespace}/${source.name}`)?.spec ?? {} };
}
