import { findIgnoredInTemplate } from "../../api/fields/find-ignored.ts";
import { type NamedSnapshot, type VersionContent, versionContents } from "../../api/kinds/named-snapshot.ts";
import { allVolumes } from "../../api/kinds/sandbox-parts.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import type { Capture, Cloning } from "./state.ts";

/** Ramet's controllers add the kept template to a clone, and record what a checkpoint contains. */
export const ownCloning: Cloning = {
  builder: (_, base) =>
    "template" in base
      ? { annotations: {}, spec: { ...base.template, pauseStrategy: undefined } }
      : { annotations: { [restoreFromAnnotations[0]]: base.checkpointId }, spec: {} },
  captureSpec: (snapshot, capture) => ({
    sandboxName: capture.sandboxName,
    keepRunning: true,
    persistentContents: contentsOf(snapshot, capture),
    ...(snapshot.spec.contents.includes("volumes") && { consistency: "atomic", ...volumesOf(snapshot) }),
  }),
  hasMemory: ({ status }) => status?.ramet?.contents?.includes("memory") ?? false,
  ignoredIn: (name, spec) => findIgnoredInTemplate({ name, spec }, replaced),
  refusal: () => undefined,
  problemOf: () => undefined,
  keep: () => Promise.resolve(),
};

/** A capture that names no volumes would have those of the builder, which a sandbox as the source may name. */
function volumesOf({ spec: { volumes = [allVolumes] } }: NamedSnapshot): { volumes: string[] } {
  return { volumes };
}

/** Fields of a template that a named snapshot has itself, or that a build does not need. */
const replaced = { persistentContents: [], volumes: [], pauseStrategy: {} };

/** A step and a source are always captured with their memory, and with their volumes if the version has them. */
export function contentsOf({ spec: { contents } }: NamedSnapshot, { of }: Capture): VersionContent[] {
  if (of === "version") return [...contents];
  return versionContents.filter((content) => content !== "volumes" || contents.includes(content));
}
