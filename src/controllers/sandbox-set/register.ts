import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { keyOf } from "../../kube/object.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import type { Controller, ControllerParts } from "../common/controller-parts.ts";
import { reconcileSet, setWatches } from "./controller.ts";
import type { SetDependencies } from "./dependencies.ts";
import { setMetrics } from "./metrics.ts";
import { NewSandboxes } from "./new-sandboxes.ts";
import { StatusPace } from "./status-pace.ts";

/** Keeps the pools of SandboxSets. */
export function sandboxSetController(parts: ControllerParts): Controller {
  const { informers, cache, clock, metrics } = parts;
  const dependencies: SetDependencies = {
    ...parts,
    statuses: new StatusWriter<SandboxSet>(informers.sets.resource),
    statusPace: new StatusPace(clock),
    newSandboxes: new NewSandboxes(informers.sandboxes, clock),
    failures: new Map(),
    newTemplates: new Set(),
    metrics: metrics && setMetrics(metrics.registry, informers, cache),
  };
  forgetWhatIsGone(dependencies);
  return {
    name: "sandboxset",
    watches: setWatches(dependencies),
    reconcile: (key, signal) => reconcileSet(key, dependencies, signal),
    close: () => {
      dependencies.metrics?.close();
    },
  };
}

function forgetWhatIsGone({ informers, newSandboxes, failures, statusPace, newTemplates }: SetDependencies): void {
  informers.sets.store.subscribe(({ type, object: { metadata } }) => {
    if (type !== "deleted") return;
    newSandboxes.forget(metadata.uid);
    failures.delete(metadata.uid);
    statusPace.forget(metadata.uid);
  });
  informers.templates.store.subscribe(({ object }) => {
    newTemplates.delete(keyOf(object.metadata));
  });
}
