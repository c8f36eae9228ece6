import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { KubeObject } from "../../kube/object.ts";
import { age } from "../output/age.ts";
import type { Column } from "../output/render.ts";

/** The table of templates. */
export const templateColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "IMAGE", cell: image },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
];

function image(object: KubeObject): string {
  try {
    return parsePodTemplate(SandboxTemplate.parse(object).spec.template).spec.containers[0]?.image ?? "";
  } catch {
    return "<unreadable>";
  }
}
