import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { CellParts, ClusterParts, ProcessParts } from "../cluster/controller-parts.ts";
import type { Budgets } from "./budgets.ts";
import type { Failures } from "./failures.ts";
import type { SetMetrics } from "./metrics.ts";
import type { NewSandboxes } from "./new-sandboxes.ts";
import type { StatusPace } from "./conditions.ts";

export interface SetDependencies
  extends Omit<ClusterParts, "client">, Omit<ProcessParts, "metrics">, Pick<CellParts, "engines" | "departures"> {
  statuses: StatusWriter<SandboxSet>;
  statusPace: StatusPace;
  budgets: Budgets;
  newSandboxes: NewSandboxes;
  /** By set UID. */
  failures: Map<string, Failures>;
  /** `namespace/name` of SandboxTemplates that this process wrote and its cache may not show yet. */
  newTemplates: Set<string>;
  metrics: SetMetrics | undefined;
}
