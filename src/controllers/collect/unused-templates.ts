import { annotations } from "../../api/names/labels.ts";
import { controllerOf } from "../../kube/object.ts";
import { garbageOf, type CollectionState, type Garbage } from "./garbage.ts";
import type { References } from "./references.ts";

/** The revisions that sets have written out for people to read, and marked as needed by nobody. */
export function unusedTemplates({ templates }: CollectionState, references: References): Garbage[] {
  return templates
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .filter(({ metadata }) => metadata.annotations?.[annotations.cleanupCandidate] === "true")
    .filter((template) => controllerOf(template)?.kind === "SandboxSet" && !references.hasTemplate(template))
    .map((template) => {
      const why = `a former revision of the set ${controllerOf(template)?.name ?? ""} that no sandbox of it has`;
      return garbageOf(template, { garbage: "UnusedTemplate", kind: "SandboxTemplate", why });
    });
}
