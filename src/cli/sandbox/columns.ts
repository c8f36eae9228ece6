import { restoreFromAnnotations } from "../../api/names/labels.ts";
import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import { Sandbox, type Sandbox as SandboxObject } from "../../api/kinds/sandbox.ts";
import type { KubeObject } from "../../kube/object.ts";
import { age } from "../output/age.ts";
import type { Column } from "../output/render.ts";
import { messageOf } from "../wait/outcome.ts";

/** The table of sandboxes. */
export const sandboxColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "STATUS", cell: (object) => statusOf(object) },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "FROM", cell: (object) => readable(object, source) },
  { heading: "MESSAGE", cell: (object) => readable(object, (sandbox) => messageOf(sandbox) ?? "") },
];

function statusOf(object: KubeObject): string {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  return readable(object, ({ status }) => status?.phase ?? "");
}

/** What it was made from: a checkpoint, a template or an image. */
function source({ metadata, spec, status }: SandboxObject): string {
  const checkpoint =
    status?.ramet?.restoredFrom ??
    restoreFromAnnotations.map((key) => metadata.annotations?.[key]).find((value) => value !== undefined);
  return checkpoint ?? spec.templateRef?.name ?? image(spec.template);
}

function image(template: unknown): string {
  try {
    return parsePodTemplate(template).spec.containers[0]?.image ?? "";
  } catch {
    return "";
  }
}

/** One object that a newer controller wrote in an unknown way must not hide the others. */
function readable(object: KubeObject, cell: (sandbox: SandboxObject) => string): string {
  const { data } = Sandbox.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}
