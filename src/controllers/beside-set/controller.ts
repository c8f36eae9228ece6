import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { RametError } from "../../base/errors.ts";
import { ownKey, watching } from "../../kube/controller.ts";
import { keyOf } from "../../kube/object.ts";
import type { Controller, ControllerParts } from "../cluster/controller-parts.ts";
import { resolveOrigin } from "../../api/snapshot/resolve-origin.ts";
import { followedBy, followPatch } from "./plan.ts";

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
