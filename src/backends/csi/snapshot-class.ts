import { RametError } from "../../base/errors.ts";
import { defaultClassAnnotation } from "../../kube/volumes/snapshot-names.ts";
import type { SnapshotClass } from "../../kube/volumes/snapshots.ts";

/** The end of the name that `SnapshotStack` gives to a driver's class for checkpoints. */
const checkpointSuffix = "checkpoint-retain";

/**
 * The VolumeSnapshotClass for the checkpoints of a driver's volumes: the one that `SnapshotStack` declares for them, else one that
 * keeps the data, else the driver's default, else the only one. The data is kept until the Checkpoint is deleted in any case,
 * because the backend sets that on each content.
 * @throws RametError `NotSupported` if the driver has no class; `InvalidArgument` if none of several is preferred
 */
export function checkpointClass(driver: string, classes: readonly SnapshotClass[]): string {
  const own = classes.filter((one) => one.driver === driver).map((one) => ({ ...one, name: one.metadata.name }));
  const rules: ((one: (typeof own)[number]) => boolean)[] = [
    ({ name }) => name.endsWith(checkpointSuffix),
    ({ deletionPolicy }) => deletionPolicy === "Retain",
    ({ metadata }) => metadata.annotations?.[defaultClassAnnotation] === "true",
    () => true,
  ];
  for (const holds of rules) {
    const found = own.filter(holds);
    if (found[0] === undefined) continue;
    if (found.length === 1) return found[0].name;
    const names = found.map(({ name }) => name).join(", ");
    throw new RametError("InvalidArgument", `The CSI driver ${driver} has several VolumeSnapshotClasses: ${names}`, {
      hint: `Rename the one for checkpoints so that its name ends with ${checkpointSuffix}, or declare it with SnapshotStack`,
    });
  }
  throw new RametError("NotSupported", `The CSI driver ${driver} has no VolumeSnapshotClass`, {
    hint: "Declare one with SnapshotStack, if the driver supports snapshots",
  });
}
