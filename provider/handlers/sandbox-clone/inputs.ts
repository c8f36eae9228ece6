import * as z from "zod";
import { sandboxKind, type SandboxManifest } from "../../../src/api/kinds/sandbox.ts";
import { annotations, restoreFromAnnotations } from "../../../src/api/names/labels.ts";
import { volumesOnRestore } from "../../../src/api/names/volumes-on-restore.ts";
import { diffByTable, type DiffResult, type DiffTable, type Values } from "../handler.ts";
import { ownerAnnotation } from "../../../src/api/names/labels.ts";

const Port = z.int().min(1).max(65_535);

/** The state of a clone in a stack. */
export const SandboxCloneInputs = z.looseObject({
  name: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: lower-case letters, digits and '-', at most 63",
    ),
  namespace: z.string().min(1),
  /** A checkpoint id, or a named snapshot with or without a version. */
  from: z.string().min(1),
  /** The spec of the SandboxTemplate that the snapshot was built from, if the program knows it. */
  template: z.looseObject({ template: z.record(z.string(), z.unknown()).optional() }).optional(),
  /** Ports that are reachable at the sandbox's address. The URL uses the first. */
  ports: z.array(Port).optional(),
  /** Whether the ports come from the snapshot's recipe rather than from the program. */
  portsFollow: z.boolean().optional(),
  /** The time after which the sandbox is deleted, such as `8 hours`. */
  lifetime: z.string().optional(),
  /** The choice of the clone's volumes, if the source has PersistentVolumeClaims. */
  volumesOnRestore: z.enum(volumesOnRestore).optional(),
  timeout: z.string(),
  owner: z.string(),
});
export type SandboxCloneInputs = z.infer<typeof SandboxCloneInputs>;

/** A clone keeps its source: any other source requires a replacement. */
const sandboxCloneDiff: DiffTable = {
  name: "immutable",
  namespace: "immutable",
  from: "immutable",
  ports: "immutable",
  volumesOnRestore: "immutable",
  lifetime: "mutable",
  portsFollow: "ignored",
  template: "ignored",
  timeout: "ignored",
  owner: "ignored",
};

/** A clone also keeps the ports of its recipe when the recipe changes. */
export function diffSandboxClone(olds: Values, news: Values): DiffResult {
  // A state without `portsFollow`, from an earlier version, is assumed to follow.
  const follows = news["portsFollow"] === true && olds["portsFollow"] !== false;
  return diffByTable(sandboxCloneDiff, olds, follows ? { ...news, ports: olds["ports"] } : news);
}

/** The manifest to apply. */
export function manifestOf(inputs: SandboxCloneInputs, spec: SandboxManifest["spec"]): SandboxManifest {
  const { name, namespace, from, owner, volumesOnRestore: volumes } = inputs;
  return {
    apiVersion: sandboxKind.apiVersion,
    kind: "Sandbox",
    metadata: {
      name,
      namespace,
      annotations: {
        [restoreFromAnnotations[0]]: from,
        [ownerAnnotation]: owner,
        ...(volumes !== undefined && { [annotations.volumesOnRestore]: volumes }),
      },
    },
    spec,
  };
}
