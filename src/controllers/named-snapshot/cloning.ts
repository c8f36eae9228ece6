import { findIgnoredInTemplate } from "../../api/fields/find-ignored.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
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
  }),
  hasMemory: ({ status }) => status?.ramet?.contents?.includes("memory") ?? false,
  ignoredIn: (name, spec) => findIgnoredInTemplate({ name, spec }, replaced),
  problemOf: () => undefined,
  keep: () => Promise.resolve(),
};

/** Fields of a template that a named snapshot has itself, or that a build does not need. */
const replaced = { persistentContents: [], pauseStrategy: {} };

/** A step and a source are always captured with their memory. */
export function contentsOf({ spec }: NamedSnapshot, { of }: Capture): ("memory" | "filesystem")[] {
  return of === "version" ? [...spec.contents] : ["memory", "filesystem"];
}
