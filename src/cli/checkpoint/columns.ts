import { Checkpoint, type Checkpoint as CheckpointObject } from "../../api/kinds/checkpoint.ts";
import type { KubeObject } from "../../kube/object.ts";
import { age } from "../output/age.ts";
import type { Column } from "../output/render.ts";
import { size } from "../output/size.ts";
import { messageOf } from "../wait/outcome.ts";

/** The table of checkpoints. */
export const checkpointColumns: readonly Column[] = [
  { heading: "NAME", cell: ({ metadata }) => metadata.name },
  { heading: "STATUS", cell: (object) => statusOf(object) },
  { heading: "ID", cell: (object) => readable(object, ({ status }) => status?.checkpointId ?? "") },
  { heading: "SANDBOX", cell: (object) => readable(object, ({ spec }) => spec.sandboxName ?? spec.podName ?? "") },
  { heading: "CONTENTS", cell: (object) => readable(object, contents) },
  { heading: "SIZE", cell: (object) => readable(object, ({ status }) => size(status?.ramet?.sizeBytes)) },
  { heading: "AGE", cell: ({ metadata }, now) => age(metadata.creationTimestamp, now) },
  { heading: "MESSAGE", cell: (object) => readable(object, (checkpoint) => messageOf(checkpoint) ?? "") },
];

function statusOf(object: KubeObject): string {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  return readable(object, ({ status }) => status?.phase ?? "");
}

function contents({ spec, status }: CheckpointObject): string {
  return (status?.ramet?.contents ?? spec.persistentContents ?? []).join(",");
}

function readable(object: KubeObject, cell: (checkpoint: CheckpointObject) => string): string {
  const { data } = Checkpoint.safeParse(object);
  return data === undefined ? "<unreadable>" : cell(data);
}
