import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { OwnWrites } from "../../kube/own-writes.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../common/attempts.ts";
import { Wishes, type Controller, type ControllerParts } from "../common/controller-parts.ts";
import { reconcileSnapshot, snapshotWatches } from "./controller.ts";
import type { SnapshotDependencies } from "./dependencies.ts";
import { createLookups } from "./lookups.ts";
import { snapshotMetrics } from "./metrics.ts";
import { publicFetch } from "./steps/public-fetch.ts";
import type { StepOutcome } from "./steps/step-outcome.ts";

/** A builder whose cell cannot be reached for that long is lost. */
const unreachableMilliseconds = 60_000;

/** Builds NamedSnapshots. */
export function namedSnapshotController(parts: ControllerParts): Controller {
  const { informers, clock, random, metrics } = parts;
  const counted = metrics && snapshotMetrics(metrics.registry);
  const wishes = new Wishes();
  const closing = new AbortController();
  const dependencies: SnapshotDependencies = {
    ...parts,
    lookups: createLookups(informers),
    statuses: new StatusWriter<NamedSnapshot>(informers.snapshots.resource),
    ownWrites: new OwnWrites(informers.snapshots),
    steps: new Attempts<StepOutcome>({ clock, random, giveUpAfterMilliseconds: unreachableMilliseconds }),
    fetch: publicFetch(),
    counted,
    closing: closing.signal,
    enqueue: wishes.enqueue,
  };
  return {
    name: "named-snapshot",
    watches: snapshotWatches(dependencies),
    reconcile: (key) => reconcileSnapshot(key, dependencies),
    wishes,
    close: () => {
      closing.abort();
      dependencies.steps.close();
      counted?.close();
    },
  };
}
