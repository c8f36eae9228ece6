import * as z from "zod";

/** How the VolumeSnapshots of a Checkpoint are made, in its annotation `ramet.dev/volume-snapshot`. */
export const VolumeSnapshotRequest = z.object({
  /** With one volume. The VolumeSnapshot then owns the Checkpoint, which is deleted with it. @default chosen by the backend */
  name: z.string().optional(),
  /** The VolumeSnapshotClass. @default chosen by the driver of each volume */
  className: z.string().optional(),
});
export type VolumeSnapshotRequest = z.infer<typeof VolumeSnapshotRequest>;
