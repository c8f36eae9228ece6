import { NamedSnapshot, type NamedSnapshot as NamedSnapshotObject } from "../../api/kinds/named-snapshot.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { KubeObject } from "../../kube/object.ts";
import { age } from "../output/age.ts";
import type { Column } from "../output/render.ts";

/** The table of named snapshots. */
export const snapshotColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "VERSION", cell: (object) => readable(object, ({ status }) => String(status?.version ?? "")) },
  { heading: "READY", cell: (object) => condition(object, "Ready") },
  { heading: "BUILDING", cell: (object) => condition(object, "Building") },
  { heading: "STEPS", cell: (object) => readable(object, ({ status }) => status?.progress ?? "") },
  { heading: "CHECKPOINT", cell: (object) => readable(object, ({ status }) => status?.checkpointId ?? "") },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "MESSAGE", cell: (object) => readable(object, ({ status }) => firstLine(status?.message)) },
];

function condition(object: KubeObject, type: string): string {
  return readable(object, ({ status }) => findCondition(status?.conditions, type)?.status ?? "Unknown");
}

function readable(object: KubeObject, cell: (snapshot: NamedSnapshotObject) => string): string {
  const { data } = NamedSnapshot.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}

/** What a step printed stands below it. */
function firstLine(text = ""): string {
  return text.split("\n")[0] ?? "";
}
