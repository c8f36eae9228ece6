import { ApiKey, type ApiKey as ApiKeyObject } from "../../api/kinds/api-key.ts";
import { Checkpoint, type Checkpoint as CheckpointObject, dataAvailable } from "../../api/kinds/checkpoint.ts";
import { NamedSnapshot, type NamedSnapshot as NamedSnapshotObject } from "../../api/kinds/named-snapshot.ts";
import { SandboxClaim, type SandboxClaim as SandboxClaimObject } from "../../api/kinds/sandbox-claim.ts";
import { SandboxSet, type SandboxSet as SandboxSetObject } from "../../api/kinds/sandbox-set.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { Sandbox, type Sandbox as SandboxObject } from "../../api/kinds/sandbox.ts";
import { lastExpiry, unexpired } from "../../api/keys/api-key-rules.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { KubeObject } from "../../kube/object.ts";
import { messageOf } from "../../kube/reported-state.ts";
import { type Column, age, size } from "../output/render.ts";

/** The table of templates. */
export const templateColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "IMAGE", cell: image },
  { heading: "OWNER", cell: owner },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
];

function image(object: KubeObject): string {
  try {
    return parsePodTemplate(SandboxTemplate.parse(object).spec.template).spec.containers[0]?.image ?? "";
  } catch {
    return "<unreadable>";
  }
}

/** Returns the owner of a template: its set, or the checkpoint whose source has it. */
function owner({ metadata }: KubeObject): string {
  const [first] = metadata.ownerReferences ?? [];
  return first === undefined ? "" : `${first.kind.toLowerCase()}/${first.name}`;
}

/** The table of checkpoints. */
export const checkpointColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "STATUS", cell: (object) => checkpointStatus(object) },
  { heading: "ID", cell: (object) => checkpointCell(object, ({ status }) => status?.checkpointId ?? "") },
  {
    heading: "SOURCE",
    cell: (object) => checkpointCell(object, sourceOf),
  },
  { heading: "CONTENTS", cell: (object) => checkpointCell(object, contents) },
  { heading: "SIZE", cell: (object) => checkpointCell(object, ({ status }) => size(status?.ramet?.sizeBytes)) },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  {
    heading: "MESSAGE",
    cell: (object) =>
      checkpointCell(object, (checkpoint) => lostData(checkpoint)?.message ?? messageOf(checkpoint) ?? ""),
  },
];

/** As kubectl does for Pods, the reason of a problem takes the place of the phase. */
function checkpointStatus(object: KubeObject): string {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  return checkpointCell(object, (checkpoint) => lostData(checkpoint)?.reason ?? checkpoint.status?.phase ?? "");
}

function lostData({ status }: CheckpointObject): Condition | undefined {
  const condition = findCondition(status?.conditions, dataAvailable);
  return condition?.status === "False" ? condition : undefined;
}

/** The captured sandbox, or whether the data of imported volumes is deleted with the checkpoint. */
function sourceOf({ spec: { sandboxName, podName, volumeImport } }: CheckpointObject): string {
  if (volumeImport === undefined) return sandboxName ?? podName ?? "";
  return volumeImport.takeOwnership === true ? "<import,owned>" : "<import>";
}

function contents({ spec, status }: CheckpointObject): string {
  return (status?.ramet?.contents ?? spec.persistentContents ?? []).join(",");
}

function checkpointCell(object: KubeObject, cell: (checkpoint: CheckpointObject) => string): string {
  const { data } = Checkpoint.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}

/** The table of claims. */
export const claimColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "PHASE", cell: (object) => claimCell(object, ({ status }) => status?.phase ?? "") },
  { heading: "SET", cell: (object) => claimCell(object, ({ spec }) => spec.templateName) },
  {
    heading: "CLAIMED",
    cell: (object) => claimCell(object, ({ spec, status }) => `${status?.claimedReplicas ?? 0}/${spec.replicas}`),
  },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "MESSAGE", cell: (object) => claimCell(object, ({ status }) => status?.message ?? "") },
];

function claimCell(object: KubeObject, cell: (claim: SandboxClaimObject) => string): string {
  const { data } = SandboxClaim.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}

/** The table of sets. */
export const setColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "REPLICAS", cell: (object) => setCell(object, ({ spec }) => String(spec.replicas)) },
  { heading: "AVAILABLE", cell: (object) => setCell(object, ({ status }) => String(status?.availableReplicas ?? 0)) },
  { heading: "UPDATED", cell: (object) => setCell(object, ({ status }) => String(status?.updatedReplicas ?? 0)) },
  { heading: "REVISION", cell: (object) => setCell(object, ({ status }) => status?.updateRevision ?? "") },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "MESSAGE", cell: (object) => setCell(object, (set) => messageOf(set) ?? "") },
];

function setCell(object: KubeObject, cell: (set: SandboxSetObject) => string): string {
  const { data } = SandboxSet.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}

/** The table of named snapshots. */
export const snapshotColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "VERSION", cell: (object) => snapshotCell(object, ({ status }) => String(status?.version ?? "")) },
  { heading: "READY", cell: (object) => condition(object, "Ready") },
  { heading: "BUILDING", cell: (object) => condition(object, "Building") },
  { heading: "STEPS", cell: (object) => snapshotCell(object, ({ status }) => status?.progress ?? "") },
  { heading: "CHECKPOINT", cell: (object) => snapshotCell(object, ({ status }) => status?.checkpointId ?? "") },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "MESSAGE", cell: (object) => snapshotCell(object, ({ status }) => firstLine(status?.message)) },
];

function condition(object: KubeObject, type: string): string {
  return snapshotCell(object, ({ status }) => findCondition(status?.conditions, type)?.status ?? "Unknown");
}

function snapshotCell(object: KubeObject, cell: (snapshot: NamedSnapshotObject) => string): string {
  const { data } = NamedSnapshot.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}

/** Only the first line: a step's output follows it. */
function firstLine(text = ""): string {
  return text.split("\n")[0] ?? "";
}

/** The table of API keys. */
export const keyColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "SERVICE ACCOUNT", cell: (object) => keyCell(object, ({ spec }) => spec.serviceAccountName) },
  { heading: "STATUS", cell: (object, now) => keyCell(object, (key) => keyStatus(key, now)) },
  { heading: "LIMITS", cell: (object) => keyCell(object, limits) },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
];

/** A rotated key has values that expire, and one that does not. */
function keyStatus({ spec }: ApiKeyObject, now: Date): string {
  const accepted = unexpired(spec.digests, now);
  const last = lastExpiry(accepted);
  if (accepted.length === 0) return "Expired";
  if (last === undefined) return "Active";
  const ends = accepted.every(({ expiresAt }) => expiresAt !== undefined);
  return ends ? `Active until ${last}` : `Active, previous value until ${last}`;
}

function limits({ spec }: ApiKeyObject): string {
  return Object.entries(spec.limits ?? {})
    .map(([name, limit]) => `${name}=${limit}`)
    .join(",");
}

function keyCell(object: KubeObject, cell: (key: ApiKeyObject) => string): string {
  const { data } = ApiKey.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}

/** The table of sandboxes. */
export const sandboxColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "STATUS", cell: (object) => sandboxStatus(object) },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "FROM", cell: (object) => sandboxCell(object, source) },
  { heading: "MESSAGE", cell: (object) => sandboxCell(object, sandboxMessage) },
];

/** A failed pause leaves its sandbox running, so only its condition reports it. */
function sandboxMessage(sandbox: SandboxObject): string {
  const pause = findCondition(sandbox.status?.conditions, "SandboxPaused");
  return messageOf(sandbox) ?? (pause?.reason === "CheckpointFailed" ? pause.message : "");
}

function sandboxStatus(object: KubeObject): string {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  return sandboxCell(object, ({ status }) => status?.phase ?? "");
}

/** The sandbox's source: a checkpoint, a template or an image. */
function source({ metadata, spec, status }: SandboxObject): string {
  const checkpoint =
    status?.ramet?.restoredFrom ??
    restoreFromAnnotations.map((key) => metadata.annotations?.[key]).find((value) => value !== undefined);
  return checkpoint ?? spec.templateRef?.name ?? imageOf(spec.template);
}

function imageOf(template: unknown): string {
  try {
    return parsePodTemplate(template).spec.containers[0]?.image ?? "";
  } catch {
    return "";
  }
}

/** An object that a newer controller wrote in an unknown format must not hide the others. */
function sandboxCell(object: KubeObject, cell: (sandbox: SandboxObject) => string): string {
  const { data } = Sandbox.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}
