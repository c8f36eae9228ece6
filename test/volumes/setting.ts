import * as z from "zod";

/** The facts that the suite needs about a cluster. */
export const VolumesSetting = z.object({
  /** The path of a file. */
  kubeconfig: z.string(),
  /** The current one by default. */
  context: z.string().optional(),
  /** That the suite creates, uses and deletes. */
  namespace: z.string(),
  /** The cluster's default one by default. */
  storageClass: z.string().optional(),
  /** The class that Ramet must choose. */
  snapshotClass: z.string().optional(),
  /** One with Python 3 and a shell. */
  image: z.string(),
  /** Further options of `ramet sandbox exec`. */
  execOptions: z.array(z.string()),
  /** How long the cluster may take for a step: to start a sandbox, to finish a checkpoint, or to delete everything. */
  timeoutSeconds: z.coerce.number().positive(),
});
export type VolumesSetting = z.infer<typeof VolumesSetting>;

export const unconfigured = `RAMET_TEST_KUBECONFIG is not set: only local clusters are tested.

To test a cluster of yours, in which Ramet and a CSI driver with snapshots are installed:

  RAMET_TEST_KUBECONFIG=~/.kube/config npm run test:volumes

  RAMET_TEST_CONTEXT         the kubeconfig's context (default: the current one)
  RAMET_TEST_STORAGE_CLASS   the StorageClass of the claims (default: the cluster's default)
  RAMET_TEST_SNAPSHOT_CLASS  the VolumeSnapshotClass that Ramet must choose (default: any of the driver's)
  RAMET_TEST_IMAGE           an image with python3 and sh (default: ${defaultImage()})
  RAMET_TEST_EXEC            further options of "ramet sandbox exec", such as --direct
  RAMET_TEST_TIMEOUT         how many seconds a step may take (default: 600)
`;

/** Reads the variables that users set. @returns undefined if the suite is not configured */
export function settingOf(environment: NodeJS.ProcessEnv, namespace: string): VolumesSetting | undefined {
  const given = (name: string): string | undefined => environment[`RAMET_TEST_${name}`] || undefined;
  const kubeconfig = given("KUBECONFIG");
  if (kubeconfig === undefined) return undefined;
  return VolumesSetting.parse({
    kubeconfig,
    context: given("CONTEXT"),
    namespace,
    storageClass: given("STORAGE_CLASS"),
    snapshotClass: given("SNAPSHOT_CLASS"),
    image: given("IMAGE") ?? defaultImage(),
    execOptions: given("EXEC")?.split(/\s+/) ?? [],
    timeoutSeconds: given("TIMEOUT") ?? 600,
  });
}

function defaultImage(): string {
  return "docker.io/library/python:3.13-slim";
}
