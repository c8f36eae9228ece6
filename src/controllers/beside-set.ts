import type { SandboxSet } from "../api/kinds/sandbox-set.ts";
import { RametError } from "../base/errors.ts";
import { ownKey, watching } from "../kube/controller.ts";
import { keyOf } from "../kube/object.ts";
import type { Controller, ControllerParts } from "./cluster/controller-parts.ts";
import { resolveOrigin } from "../api/snapshot/resolve-origin.ts";
import { restoreFromAnnotations } from "../api/names/labels.ts";
import { acsCloneAnnotations } from "../backends/acs/acs-clone.ts";

type BesideSetParts = Pick<ControllerParts, "informers" | "cache" | "events">;

/**
 * Lets sets of other controllers follow named snapshots: writes the id of the current version into the set's template. While there
 * is no version, the set stays as it is, and an event says what it waits for.
 */
export function besideSetController({ informers, cache, events }: BesideSetParts): Controller {
  const following = informers.sets.store.index((set) => {
    const followed = followedBy(set);
    return followed === undefined ? [] : [`${set.metadata.namespace}/${followed.split("@")[0] ?? ""}`];
  });
  return {
    name: "beside-set",
    watches: [
      watching(informers.sets),
      watching(informers.snapshots, ({ metadata }) => following(keyOf(metadata)).flatMap(ownKey)),
    ],
    reconcile: async (key) => {
      const set = cache.set(key);
      if (set === undefined || set.metadata.deletionTimestamp !== undefined) return;
      const followed = followedBy(set);
      const checkpointId = followed === undefined ? undefined : currentId(set, followed);
      const patch =
        followed === undefined || checkpointId === undefined ? undefined : followPatch(set, followed, checkpointId);
      if (patch !== undefined) await informers.sets.resource.mergePatch(set.metadata, patch);
    },
  };

  function currentId(set: SandboxSet, followed: string): string | undefined {
    try {
      return resolveOrigin(set.metadata.namespace, followed, cache);
    } catch (thrown) {
      const error = RametError.from(thrown);
      const note = `The set does not follow ${followed}: ${error.describe()}`;
      events.record(set, { type: "Warning", reason: error.code, action: "Follow", note });
      return undefined;
    }
  }
}

/** On a set, or on its template until the controllers have moved it to the set: a named snapshot or a checkpoint id. */
const [rametRestoreFrom] = restoreFromAnnotations;

/** The named snapshot or checkpoint id that a set follows; undefined: none. */
function followedBy({ metadata, spec }: SandboxSet): string | undefined {
  const inTemplate = templateAnnotations(spec.template)[rametRestoreFrom];
  const text = inTemplate ?? metadata.annotations?.[rametRestoreFrom];
  return typeof text === "string" && text !== "" ? text : undefined;
}

/**
 * The merge patch that makes the sandboxes of a set clones of a checkpoint; undefined if they are. Their controllers read the id on
 * the template and roll the set when it changes. They would copy the name to each sandbox, so it moves to the set itself.
 */
function followPatch(set: SandboxSet, followed: string, checkpointId: string): object | undefined {
  const own = templateAnnotations(set.spec.template);
  const wanted = acsCloneAnnotations(checkpointId);
  const isSet = Object.entries(wanted).every(([key, value]) => own[key] === value);
  if (isSet && own[rametRestoreFrom] === undefined) return undefined;
  const { uid, resourceVersion } = set.metadata;
  return {
    // Fails with a conflict if the set has changed since.
    metadata: { uid, resourceVersion, annotations: { [rametRestoreFrom]: followed } },
    spec: { template: { metadata: { annotations: { ...wanted, [rametRestoreFrom]: null } } } },
  };
}

/** A template has no schema in the API, so it can hold any value. */
function templateAnnotations(template: Record<string, unknown> | undefined): Record<string, unknown> {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> | null } | null | undefined;
  return metadata?.annotations ?? {};
}
