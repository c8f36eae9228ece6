import * as z from "zod";
import { isId } from "./ids.ts";

const Source = z.object({ kind: z.enum(["snapshot", "volume"]), id: z.string() });

/** The record of a volume beside its data. */
export const VolumeRecord = z.object({
  format: z.literal(1),
  id: z.string().refine((id) => isId("volume", id)),
  name: z.string(),
  createdAt: z.iso.datetime(),
  capacityBytes: z.int().nonnegative(),
  /** The source of its first content. */
  source: Source.optional(),
});
export type VolumeRecord = z.infer<typeof VolumeRecord>;

/** The record of a snapshot beside its data. */
export const SnapshotRecord = z.object({
  format: z.literal(1),
  id: z.string().refine((id) => isId("snapshot", id)),
  name: z.string(),
  /** When the copy began: it has everything that was written before. */
  createdAt: z.iso.datetime(),
  /** The capacity of its volume, which a new volume needs at least. */
  sizeBytes: z.int().nonnegative(),
  volumeId: z.string(),
  /** The group that it is a member of. */
  groupId: z.string().optional(),
});
export type SnapshotRecord = z.infer<typeof SnapshotRecord>;

/** The record of a group of snapshots. It is written when all members exist. */
export const GroupRecord = z.object({
  format: z.literal(1),
  id: z.string().refine((id) => isId("group", id)),
  name: z.string(),
  /** When the copies of all members began. */
  createdAt: z.iso.datetime(),
  /** Sorted. */
  volumeIds: z.array(z.string()),
});
export type GroupRecord = z.infer<typeof GroupRecord>;
