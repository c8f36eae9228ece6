import * as z from "zod";
import { group } from "../schema/kind.ts";
import { Time } from "../schema/metadata.ts";
import { OptionalFlag, atomicList, listBy } from "../schema/rules.ts";
import { mostVolumes } from "./sandbox-parts.ts";

/** How consistent the parts of a checkpoint are with each other. */
export const consistencies = ["crash", "sync", "quiesced", "atomic"] as const;

/** A snapshot that exists at a CSI driver, and what a claim needs to get its data. */
export const ImportedVolume = z.object({
  volume: z.string().min(1).max(63).describe("The name of the volume in the Pods of clones."),
  driver: z
    .string()
    .max(63)
    .regex(/^[a-zA-Z0-9]([-a-zA-Z0-9._]*[a-zA-Z0-9])?$/, "must be the name of a CSI driver")
    .describe("The CSI driver that has the snapshot."),
  snapshotHandle: z
    .string()
    .min(1)
    .max(1024)
    .describe("Identifies the snapshot to the driver, such as snap-0123456789abcdef0."),
  sizeBytes: z
    .int()
    .min(0)
    .optional()
    .describe("The smallest claim that can get the data. If the driver reports another size, the import fails."),
  volumeMode: z.enum(["Filesystem", "Block"]).optional().describe("Default Filesystem."),
  storageClassName: z
    .string()
    .max(253)
    .optional()
    .describe("The StorageClass of claims whose template names none, if it exists."),
  accessModes: atomicList(z.enum(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]))
    .min(1)
    .max(4)
    .optional()
    .describe("The access modes of claims whose template names none. Default ReadWriteOnce."),
  consistency: z.enum(consistencies).optional().describe("How it was captured. Default crash."),
  cutAt: Time.optional().describe("When the content was captured. Default: what the driver reports."),
});
export type ImportedVolume = z.infer<typeof ImportedVolume>;

/**
 * Snapshots of another namespace or cluster that become the volumes of a checkpoint. A user who names a handle can read any snapshot that
 * the driver can read, so an admission policy requires the verb `import` on checkpoints.
 */
export const VolumeImport = z
  .object({
    volumes: listBy("volume", ImportedVolume)
      .min(1)
      .max(mostVolumes)
      .describe("The snapshots, each with the volume that it is of."),
    takeOwnership: OptionalFlag.describe(
      "Whether the data is deleted with the last checkpoint of this cluster that has it. Default false: only data that this cluster has captured is.",
    ),
    templateRef: z
      .object({ name: z.string().min(1).max(253).describe("The name of the SandboxTemplate.") })
      .optional()
      .describe(
        "A SandboxTemplate of the namespace, which is kept as that of the checkpoint's source. Without it, each clone needs its own.",
      ),
  })
  .describe(
    "Snapshots that exist at CSI drivers, instead of a sandbox to capture. Requires the verb import on checkpoints of the namespace.",
  );
export type VolumeImport = z.infer<typeof VolumeImport>;

const field = "object.?spec.?volumeImport";

/**
 * The admission policy for imports of volumes. Controllers create the contents with their own rights, so the rights of the user must be
 * checked while that user is known. It applies in all namespaces. The controllers compare the installed policy with this one before they
 * honour an import.
 */
export const importGuard = {
  name: "ramet-volume-imports",
  apiGroup: group,
  operations: ["CREATE", "UPDATE"],
  resources: ["checkpoints"],
  conditions: [
    {
      name: "import-requested",
      expression: `${field}.hasValue() && (oldObject == null || ${field} != oldObject.?spec.?volumeImport)`,
    },
  ],
  validations: [
    {
      expression: `authorizer.group("${group}").resource("checkpoints").namespace(request.namespace).check("import").allowed()`,
      message:
        "spec.volumeImport names snapshots of other namespaces or clusters: get the right to import checkpoints (the verb import) in this namespace",
    },
  ],
};
