import type * as z from "zod";
import { lastExpiry, unexpired } from "../../api/keys/api-key-rules.ts";
import { ApiKey } from "../../api/kinds/api-key.ts";
import { Checkpoint, dataAvailable, hasLayer } from "../../api/kinds/checkpoint.ts";
import { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { isAutomatic } from "../../api/state/checkpoint.ts";
import { pausedBy } from "../../api/state/sandbox.ts";
import type { Storage, StorageBytes } from "../../api/state/storage.ts";
import { resultOr } from "../../base/errors.ts";
import { findCondition, messageOf } from "../../kube/conditions.ts";
import { type Column, age, size } from "../output/render.ts";

const nameColumn: Column = { heading: "NAME", cell: ({ metadata }) => metadata.name };
const ageColumn: Column = { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) };

type Cell<T> = (object: T, now: Date) => string | number | undefined;

/** The columns with these headings. An object that a newer controller wrote in an unknown format must not hide the others. */
function columns<T>(schema: z.ZodType<T>, cells: Readonly<Record<string, Cell<T>>>): Column[] {
  return Object.entries(cells).map(([heading, cell]) => ({
    heading,
    cell: (object, now) => {
      const { data } = schema.safeParse(object);
      return data === undefined ? "<unreadable>" : String(cell(data, now) ?? "");
    },
  }));
}

/** A status that says first whether the object is being deleted. */
function statusColumn<T>(schema: z.ZodType<T>, cell: Cell<T>): Column[] {
  return columns(schema, { STATUS: cell }).map((column) => ({
    ...column,
    cell: (object, now) => (object.metadata.deletionTimestamp === undefined ? column.cell(object, now) : "Terminating"),
  }));
}

export const templateColumns: readonly Column[] = [
  nameColumn,
  ...columns(SandboxTemplate, { IMAGE: ({ spec }) => imageOf(spec.template, "<unreadable>") }),
  { heading: "OWNER", cell: owner },
  ageColumn,
];

function imageOf(template: unknown, otherwise: string): string {
  return resultOr(() => parsePodTemplate(template).spec.containers[0]?.image ?? "", otherwise);
}

/** Returns the owner of a template: its set, or the checkpoint whose source has it. */
function owner({ metadata }: Parameters<Column["cell"]>[0]): string {
  const [first] = metadata.ownerReferences ?? [];
  return first === undefined ? "" : `${first.kind.toLowerCase()}/${first.name}`;
}

/** @param storage the data of all Checkpoints. Undefined: it is not shown, or the user is not allowed to list them */
export function checkpointColumns(storage?: Storage): readonly Column[] {
  return [
    nameColumn,
    // As kubectl does for Pods, the reason of a problem takes the place of the phase.
    ...statusColumn(Checkpoint, (checkpoint) => lostData(checkpoint)?.reason ?? checkpoint.status?.phase),
    ...columns(Checkpoint, {
      ID: ({ status }) => status?.checkpointId,
      SOURCE: sourceOf,
      CONTENTS: contentsOf,
      SIZE: ({ status }) => size(status?.ramet?.sizeBytes),
    }),
    ...storageColumns(Checkpoint, storage, (checkpoint) => [checkpoint]),
    ...columns(Checkpoint, {
      // The API key of a client.
      OWNER: ({ metadata }) => metadata.annotations?.[annotations.owner],
    }),
    ageColumn,
    ...columns(Checkpoint, { MESSAGE: messageOfCheckpoint }),
  ];
}

function messageOfCheckpoint(checkpoint: Checkpoint): string | undefined {
  const automatic = isAutomatic(checkpoint)
    ? "automatic: the last ones are kept, until the sandbox is deleted"
    : undefined;
  return lostData(checkpoint)?.message ?? messageOf(checkpoint) ?? automatic;
}

/** What an object needs of the store alone, and what it shares with others. */
function storageColumns<T>(
  schema: z.ZodType<T>,
  storage: Storage | undefined,
  checkpointsOf: (object: T, storage: Storage) => readonly Checkpoint[],
): Column[] {
  if (storage === undefined) return [];
  const cell = (of: (bytes: StorageBytes) => number) => (object: T) => {
    const bytes = storage.bytesOf(checkpointsOf(object, storage));
    return bytes.uniqueBytes + bytes.sharedBytes === 0 ? "" : size(of(bytes));
  };
  return columns(schema, {
    UNIQUE: cell(({ uniqueBytes }) => uniqueBytes),
    SHARED: cell(({ sharedBytes }) => sharedBytes),
  });
}

function contentsOf({ spec, status }: Checkpoint): string {
  const { contents, parts = [] } = status?.ramet ?? {};
  const names = (contents ?? spec.persistentContents ?? []).join(",");
  if (hasLayer(parts)) return `${names} (layer)`;
  return parts.some(({ layers }) => layers !== undefined) ? `${names} (on layers)` : names;
}

function lostData({ status }: Checkpoint): Condition | undefined {
  const condition = findCondition(status?.conditions, dataAvailable);
  return condition?.status === "False" ? condition : undefined;
}

/** The captured sandbox, or whether the data of imported volumes is deleted with the checkpoint. */
function sourceOf({ spec: { sandboxName, podName, volumeImport } }: Checkpoint): string {
  if (volumeImport === undefined) return sandboxName ?? podName ?? "";
  return volumeImport.takeOwnership === true ? "<import,owned>" : "<import>";
}

export const claimColumns: readonly Column[] = [
  nameColumn,
  ...columns(SandboxClaim, {
    PHASE: ({ status }) => status?.phase,
    SET: ({ spec }) => spec.templateName,
    CLAIMED: ({ spec, status }) => `${status?.claimedReplicas ?? 0}/${spec.replicas}`,
  }),
  ageColumn,
  ...columns(SandboxClaim, { MESSAGE: ({ status }) => status?.message }),
];

export const setColumns: readonly Column[] = [
  nameColumn,
  ...columns(SandboxSet, {
    REPLICAS: ({ spec }) => spec.replicas,
    AVAILABLE: ({ status }) => status?.availableReplicas ?? 0,
    UPDATED: ({ status }) => status?.updatedReplicas ?? 0,
    REVISION: ({ status }) => status?.updateRevision,
  }),
  ageColumn,
  ...columns(SandboxSet, { MESSAGE: messageOf }),
];

/** @param storage as of {@link checkpointColumns} */
export function snapshotColumns(storage?: Storage): readonly Column[] {
  return [
    nameColumn,
    ...columns(NamedSnapshot, {
      VERSION: ({ status }) => status?.version,
      READY: (snapshot) => statusOf(snapshot, "Ready"),
      BUILDING: (snapshot) => statusOf(snapshot, "Building"),
      STEPS: ({ status }) => status?.progress,
      CHECKPOINT: ({ status }) => status?.checkpointId,
    }),
    ...storageColumns(NamedSnapshot, storage, ({ metadata }, all) => all.ofSnapshot(metadata.uid)),
    ageColumn,
    // Only the first line: a step's output follows it.
    ...columns(NamedSnapshot, { MESSAGE: ({ status }) => status?.message?.split("\n")[0] }),
  ];
}

function statusOf({ status }: NamedSnapshot, type: string): string {
  return findCondition(status?.conditions, type)?.status ?? "Unknown";
}

export const keyColumns: readonly Column[] = [
  nameColumn,
  ...columns(ApiKey, {
    "SERVICE ACCOUNT": ({ spec }) => spec.serviceAccountName,
    STATUS: keyStatus,
    LIMITS: ({ spec }) =>
      Object.entries(spec.limits ?? {})
        .map(([name, limit]) => `${name}=${limit}`)
        .join(","),
  }),
  ageColumn,
];

/** A rotated key has values that expire, and one that does not. */
function keyStatus({ spec }: ApiKey, now: Date): string {
  const accepted = unexpired(spec.digests, now);
  const last = lastExpiry(accepted);
  if (accepted.length === 0) return "Expired";
  if (last === undefined) return "Active";
  const ends = accepted.every(({ expiresAt }) => expiresAt !== undefined);
  return ends ? `Active until ${last}` : `Active, previous value until ${last}`;
}

export const sandboxColumns: readonly Column[] = [
  nameColumn,
  ...statusColumn(Sandbox, ({ status }) => status?.phase),
  ageColumn,
  ...columns(Sandbox, { DISK: diskOf, FROM: sourceOfSandbox, MESSAGE: sandboxMessage }),
];

function diskOf({ status }: Sandbox): string {
  const { medium, sizeBytes } = status?.ramet?.writableLayer ?? {};
  return `${size(sizeBytes)}${medium === "memory" ? " (memory)" : ""}`;
}

/** A failed pause leaves its sandbox running, so only its condition reports it; and a pause that no user has requested. */
function sandboxMessage(sandbox: Sandbox): string {
  const pause = findCondition(sandbox.status?.conditions, "SandboxPaused");
  const isReported = pause?.reason === "CheckpointFailed" || pausedBy(sandbox) !== undefined;
  return messageOf(sandbox) ?? (isReported ? (pause?.message ?? "") : "");
}

/** The sandbox's source: a checkpoint, a template or an image. */
function sourceOfSandbox({ metadata, spec, status }: Sandbox): string {
  const checkpoint =
    status?.ramet?.restoredFrom ??
    restoreFromAnnotations.map((key) => metadata.annotations?.[key]).find((value) => value !== undefined);
  return checkpoint ?? spec.templateRef?.name ?? imageOf(spec.template, "");
}
