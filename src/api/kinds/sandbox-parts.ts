import * as z from "zod";
import { atomicList, exclusive, labelName, type Rule, SchemalessList, SchemalessObject } from "../schema/rules.ts";

export const PauseStrategy = z
  .object({
    type: z
      .enum(["Stop", "Hibernate"])
      .optional()
      .describe("Stop deletes the Pod and keeps only volumes; Hibernate keeps the contents in persistentContents."),
    hibernateStrategy: z
      .object({ type: z.string().optional().describe("Snapshot.") })
      .optional()
      .describe("How Hibernate keeps the contents."),
  })
  .describe("What a pause keeps, and whether the Pod is deleted. Default: Hibernate.");
export type PauseStrategy = z.infer<typeof PauseStrategy>;

/**
 * A content of a sandbox or a checkpoint: any word, as in OpenKruise Agents. Words of other vendors, and `ip`, select nothing and
 * are reported by the condition `FieldsIgnored`.
 */
export const ContentWord = z.string().min(1).max(63);

/** Limits the list, and lets the API server estimate the cost of rules about it. */
export const mostContents = 16;

/** The contents that a sandbox keeps over a pause. `podInfo`, the description of its Pod, is always kept. */
const PersistentContents = atomicList(ContentWord)
  .max(mostContents)
  .describe(
    "The contents to keep over a pause and, by default, in a checkpoint: memory, filesystem. With volumes, checkpoints contain the PersistentVolumeClaims too, which outlive a pause in any case.",
  );

/** Selects all volumes, together with contents that do not name them. */
export const allVolumes = "*";

/** The most volumes of a checkpoint: Kubernetes limits those of a Pod by their names only. */
export const mostVolumes = 64;

/** The names of volumes in a Pod, or `*`. */
export const VolumeNames = atomicList(z.string().min(1).max(63)).min(1).max(mostVolumes);

/** The contents of the checkpoints of a sandbox that do not say what they contain. */
export const contentFields = {
  persistentContents: PersistentContents.optional(),
  volumes: VolumeNames.optional().describe(
    "The volumes in checkpoints that do not name them, by their names in the Pod; * is all that are PersistentVolumeClaims. Default with volumes in persistentContents: all.",
  ),
};

export const selectedVolumes: Rule<{ persistentContents?: readonly string[] | undefined; volumes?: unknown }> = {
  cel: "!has(self.volumes) || !has(self.persistentContents) || self.persistentContents.exists(content, content == 'volumes')",
  message: "volumes names what persistentContents does not select: add volumes to persistentContents",
  fieldPath: ".volumes",
  holds: ({ persistentContents, volumes }) =>
    volumes === undefined || persistentContents === undefined || persistentContents.includes("volumes"),
};

export const Runtimes = atomicList(z.object({ name: z.string().describe("The name of the runtime.") })).describe(
  "Accepted without effect, see the condition FieldsIgnored: csi, agent-runtime, traffic-proxy.",
);

const TemplateRef = z.object({
  name: z.string().describe("A SandboxTemplate in the same namespace."),
  kind: z.string().optional().describe("SandboxTemplate."),
  apiVersion: z.string().optional().describe("The API version of the kind."),
});

/** The Pod template of a sandbox, inline or by name. */
export const templateFields = {
  templateRef: TemplateRef.optional().describe("The SandboxTemplate to use. Mutually exclusive with template."),
  template: SchemalessObject.optional().describe(
    "A Pod template: metadata and spec. Mutually exclusive with templateRef.",
  ),
  volumeClaimTemplates: SchemalessList.optional().describe(
    "PersistentVolumeClaims to create for each sandbox, named <template>-<sandbox>.",
  ),
};

export const oneTemplate = exclusive(
  "template",
  "templateRef",
  "template and templateRef exclude each other: set only one of them",
);

/** An integer or a percentage, as in Kubernetes rollouts. */
export const IntOrPercent = z
  .union([z.int(), z.string()])
  .meta({ crd: { "x-kubernetes-int-or-string": true, anyOf: [{ type: "integer" }, { type: "string" }] } });

/** The Pod of a sandbox has its name, and the name of a Pod is its host name, so it must be a DNS label. */
export const sandboxName = labelName(
  63,
  "metadata.name must be a DNS label (lower-case letters, digits and '-', at most 63 characters): it is also the name of the sandbox's Pod and its host name",
);
