/** The name of Ramet's driver for volumes of one machine, in StorageClasses, VolumeSnapshotClasses and PersistentVolumes. */
export const driverName = "local.csi.ramet.dev";
