import { SandboxSet, type SandboxSet as SandboxSetObject } from "../../api/kinds/sandbox-set.ts";
import type { KubeObject } from "../../kube/object.ts";
import { age } from "../output/age.ts";
import type { Column } from "../output/render.ts";
import { messageOf } from "../wait/outcome.ts";

/** The table of sets. */
export const setColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "REPLICAS", cell: (object) => readable(object, ({ spec }) => String(spec.replicas)) },
  { heading: "AVAILABLE", cell: (object) => readable(object, ({ status }) => String(status?.availableReplicas ?? 0)) },
  { heading: "UPDATED", cell: (object) => readable(object, ({ status }) => String(status?.updatedReplicas ?? 0)) },
  { heading: "REVISION", cell: (object) => readable(object, ({ status }) => status?.updateRevision ?? "") },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "MESSAGE", cell: (object) => readable(object, (set) => messageOf(set) ?? "") },
];

function readable(object: KubeObject, cell: (set: SandboxSetObject) => string): string {
  const { data } = SandboxSet.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}
