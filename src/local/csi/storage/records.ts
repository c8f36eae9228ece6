import { createHash } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";

const Source = z.object({ kind: z.enum(["snapshot", "volume"]), id: z.string() });

const fieldsOf = (kind: Kind) => ({
  format: z.literal(1),
  id: z.string().refine((id) => isId(kind, id)),
  name: z.string(),
  createdAt: z.iso.datetime(),
});

/** The record of a volume beside its data. */
export const VolumeRecord = z.object({
  ...fieldsOf("volume"),
  capacityBytes: z.int().nonnegative(),
  /** The source of its first content. */
  source: Source.optional(),
});
export type VolumeRecord = z.infer<typeof VolumeRecord>;

/** The record of a snapshot beside its data. It was created when the copy began: it has everything that was written before. */
export const SnapshotRecord = z.object({
  ...fieldsOf("snapshot"),
  /** The capacity of its volume, which a new volume needs at least. */
  sizeBytes: z.int().nonnegative(),
  volumeId: z.string(),
  /** The group that it is a member of. */
  groupId: z.string().optional(),
});
export type SnapshotRecord = z.infer<typeof SnapshotRecord>;

/** The record of a group of snapshots, created when the copies began. It is written when all members exist. */
export const GroupRecord = z.object({
  ...fieldsOf("group"),
  /** Sorted. */
  volumeIds: z.array(z.string()),
});
export type GroupRecord = z.infer<typeof GroupRecord>;

export type Kind = "volume" | "snapshot" | "group";

const prefixes = { volume: "vol", snapshot: "snap", group: "group" } as const satisfies Record<Kind, string>;

/** The id of a volume, a snapshot or a group of snapshots. It is derived from its name, so a repeated request finds what the first one made. */
export function idOf(kind: Kind, name: string): string {
  return `${prefixes[kind]}-${createHash("sha256").update(name).digest("hex").slice(0, 40)}`;
}

/** Whether a text is an id. It is checked before an id of a caller becomes part of a path. */
export function isId(kind: Kind, text: string): boolean {
  return text.startsWith(`${prefixes[kind]}-`) && /^[a-z]+-[0-9a-f]{40}$/.test(text);
}

/** The directory of the data, below the driver's directory. @param id a valid one */
export function dataPath(directory: string, kind: Kind, id: string): string {
  return join(directory, `${kind}s`, id, "data");
}
