import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { NeededEngine } from "../../api/engine/engine-list.ts";
import { partsOf } from "../../backends/checkpoint-record.ts";
import type { NamedSnapshotStatus } from "../../api/kinds/named-snapshot-status.ts";
import { findCondition } from "../../kube/conditions.ts";
import { neededEngine } from "../images/engines.ts";
import type { EngineFacts, SnapshotDependencies, SnapshotState } from "./state.ts";

type Known = Pick<SnapshotDependencies, "engines" | "cache" | "lookups">;

/** @param checkpoints those of the versions and of the steps */
export function engineFacts(
  snapshot: NamedSnapshot,
  { desired, checkpoints }: { desired: SnapshotState["desired"]; checkpoints: readonly Checkpoint[] },
  known: Known,
): EngineFacts {
  const { engines } = known;
  const earlier = checkpoints.filter((one) => engines.isEarlier(neededBy(one)));
  return {
    cellImage: engines.cellImage,
    earlier: new Set(earlier.map(({ metadata }) => metadata.name)),
    source: "problem" in desired ? "current" : sourceOf(snapshot, desired, known),
  };
}

function sourceOf(
  { metadata: { namespace }, spec: { from } }: NamedSnapshot,
  { origin }: Exclude<SnapshotState["desired"], { problem: unknown }>,
  { engines, cache, lookups }: Known,
): EngineFacts["source"] {
  if (origin.kind === "template") return "current";
  // The captured moment of the sandbox has gone.
  if (origin.kind === "sandbox") return "bound";
  const checkpoint = cache.checkpointById(namespace, origin.checkpointId);
  if (checkpoint === undefined || !engines.isEarlier(neededBy(checkpoint))) return "current";
  const parent = from.snapshot && lookups.snapshot(`${namespace}/${from.snapshot.name}`);
  return parent?.status !== undefined && isUpgraded(parent.status, origin.checkpointId) ? "waiting" : "bound";
}

function isUpgraded({ checkpointId, conditions }: NamedSnapshotStatus, source: string): boolean {
  return checkpointId === source && upgrades.has(findCondition(conditions, "EngineCurrent")?.reason ?? "");
}

/** The reasons of a parent that is going to have the current engine. */
const upgrades: ReadonlySet<string> = new Set(["Upgrading", "UpgradeWaiting", "SourceUpgrading"]);

/** The engine that a Checkpoint's memory needs. */
export function neededBy({ status }: Checkpoint): NeededEngine {
  return neededEngine(partsOf(status?.ramet) ?? []);
}
