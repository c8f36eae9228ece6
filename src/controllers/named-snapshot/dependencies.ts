import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { OwnWrites } from "../../kube/own-writes.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Attempts } from "../common/attempts.ts";
import type { ControllerParts } from "../common/controller-parts.ts";
import type { Lookups } from "./lookups.ts";
import type { SnapshotMetrics } from "./metrics.ts";
import type { PublicFetch } from "./steps/public-fetch.ts";
import type { StepOutcome } from "./steps/step.ts";

export interface SnapshotDependencies extends Pick<
  ControllerParts,
  "client" | "informers" | "cache" | "runtime" | "podOptions" | "events" | "clock" | "log"
> {
  lookups: Lookups;
  statuses: StatusWriter<NamedSnapshot>;
  ownWrites: OwnWrites<NamedSnapshot>;
  /** Running and finished steps, by `attemptId`. */
  steps: Attempts<StepOutcome>;
  fetch: PublicFetch;
  counted?: SnapshotMetrics | undefined;
  /** Aborted when the controller stops. */
  closing: AbortSignal;
  /** Reconciles a key after an event that no informer reports. */
  enqueue: (key: string) => void;
}
