import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { defaultClassAnnotation, defaultGroupClassAnnotation } from "../../kube/volumes/snapshots.ts";

/** The end of the name that `SnapshotStack` gives to a driver's class for checkpoints. */
const checkpointSuffix = "checkpoint-retain";

/** A VolumeSnapshotClass or a VolumeGroupSnapshotClass. */
interface DriverClass extends KubeObject {
  driver: string;
  deletionPolicy: string;
}

/**
 * The VolumeSnapshotClass for the checkpoints of a driver's volumes: the one that `SnapshotStack` declares for them, else one that
 * keeps the data, else the driver's default, else the only one. The data is kept until the Checkpoint is deleted in any case,
 * because the backend sets that on each content.
 * @throws RametError `NotSupported` if the driver has no class; `InvalidArgument` if none of several is preferred
 */
export function checkpointClass(driver: string, classes: readonly DriverClass[]): string {
  const [first, ...others] = preferred(driver, classes, defaultClassAnnotation);
  if (first === undefined)
    throw new RametError("NotSupported", `The CSI driver ${driver} has no VolumeSnapshotClass`, {
      hint: "Declare one with SnapshotStack, if the driver supports snapshots",
    });
  if (others.length === 0) return first;
  const names = [first, ...others].join(", ");
  throw new RametError("InvalidArgument", `The CSI driver ${driver} has several VolumeSnapshotClasses: ${names}`, {
    hint: `Rename the one for checkpoints so that its name ends with ${checkpointSuffix}, or declare it with SnapshotStack`,
  });
}

/** The VolumeSnapshotClass that a Checkpoint requests. @throws RametError `InvalidArgument` if it is not one of the driver */
export function requestedClass(name: string, driver: string, classes: readonly DriverClass[]): string {
  const found = classes.find(({ metadata }) => metadata.name === name);
  if (found?.driver === driver) return name;
  const why = found === undefined ? "does not exist" : `is of the CSI driver ${found.driver}, not of ${driver}`;
  throw new RametError("InvalidArgument", `The VolumeSnapshotClass ${name} ${why}`);
}

/** The VolumeGroupSnapshotClass for the checkpoints of a driver's volumes, chosen by the same rules, or why there is none. */
export function groupClass(driver: string, classes: readonly DriverClass[]): { name: string } | { problem: string } {
  const [name, ...others] = preferred(driver, classes, defaultGroupClassAnnotation);
  if (name === undefined) return { problem: "the driver has no VolumeGroupSnapshotClass" };
  if (others.length === 0) return { name };
  return { problem: `the driver has several VolumeGroupSnapshotClasses: ${[name, ...others].join(", ")}` };
}

/** The names of the classes of a driver that fulfil the first rule that any fulfils. */
function preferred(driver: string, classes: readonly DriverClass[], defaultAnnotation: string): string[] {
  const own = classes.filter((one) => one.driver === driver).map((one) => ({ ...one, name: one.metadata.name }));
  const rules: ((one: (typeof own)[number]) => boolean)[] = [
    ({ name }) => name.endsWith(checkpointSuffix),
    ({ deletionPolicy }) => deletionPolicy === "Retain",
    ({ metadata }) => metadata.annotations?.[defaultAnnotation] === "true",
    () => true,
  ];
  const rule = rules.find((holds) => own.some(holds)) ?? (() => false);
  return own.filter(rule).map(({ name }) => name);
}
