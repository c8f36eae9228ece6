import { z } from "zod";

/**
 * Whether a VolumeSnapshot or a VolumeSnapshotContent is such as the rules in external-snapshotter's CRDs since v8 refuse: what is there
 * already then stays, and can be changed no more.
 */
export function breaksRules(object: unknown): boolean {
  const { kind, spec } = Old.parse(object);
  const { source, volumeSnapshotRef, volumeSnapshotClassName } = spec;
  if (kind === "VolumeSnapshotContent") {
    const isBound = isThere(volumeSnapshotRef?.name) && isThere(volumeSnapshotRef?.namespace);
    return !isBound || isThere(source.volumeHandle) === isThere(source.snapshotHandle);
  }
  return (
    volumeSnapshotClassName === "" ||
    isThere(source.persistentVolumeClaimName) === isThere(source.volumeSnapshotContentName)
  );
}

/** The rules ask whether a field is there, whatever it holds. */
function isThere(field: string | undefined): boolean {
  return field !== undefined;
}

const Text = z.string().optional();
const Old = z.looseObject({
  kind: z.string(),
  spec: z.looseObject({
    source: z
      .looseObject({
        ...{ persistentVolumeClaimName: Text, volumeSnapshotContentName: Text },
        ...{ volumeHandle: Text, snapshotHandle: Text },
      })
      .default({}),
    volumeSnapshotRef: z.looseObject({ name: Text, namespace: Text }).optional(),
    volumeSnapshotClassName: Text,
  }),
});
