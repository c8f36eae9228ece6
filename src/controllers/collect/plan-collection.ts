import type { CollectionState, Garbage } from "./garbage.ts";
import { ownerGone } from "./owner-gone.ts";
import { referencesOf } from "./references.ts";
import { unneededStepCaches } from "./step-caches.ts";
import { timeToLive } from "./time-to-live.ts";
import { unusedTemplates } from "./unused-templates.ts";

/**
 * What can go, and why: each object once, by the first reason that there is. Nothing to which a sandbox, a set or a named
 * snapshot refers is among it, except with `dueAt`: a time to live holds whoever refers to it, and is not the collector's.
 */
export function planCollection(state: CollectionState): Garbage[] {
  const references = referencesOf(state);
  const left = ownerGone(state, references);
  const going = new Set(left.map(({ uid }) => uid));
  const checkpoints = state.checkpoints.filter(({ metadata }) => !going.has(metadata.uid));
  const all = [
    ...left,
    ...unneededStepCaches({ ...state, checkpoints }, references),
    ...unusedTemplates(state, references),
    ...timeToLive(state),
  ];
  return [...Map.groupBy(all, ({ uid }) => uid).values()].flatMap((reasons) => reasons.slice(0, 1));
}
