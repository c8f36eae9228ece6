import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { StatusWriter } from "../../kube/status-writer.ts";
import type { Attempts, SlowStart } from "../common/attempts.ts";
import type { ControllerParts } from "../common/controller-parts.ts";
import type { NewPods } from "./new-pods.ts";
import type { StartOutcome } from "./state.ts";

export interface SandboxDependencies extends ControllerParts {
  statuses: StatusWriter<Sandbox>;
  starts: Attempts<StartOutcome>;
  /** Identities for sandboxes that run. */
  adoptions: Attempts<{ generation: number }>;
  /** Checkpoints that take the place of what runs. */
  restoresInPlace: Attempts<StartOutcome>;
  /** By the UID of a Pod: the wait until the memory of its clone is in. */
  loads: Attempts<void>;
  newPods: NewPods;
  slowStart: SlowStart;
  /** Requeues a key after a change that no informer reports. */
  enqueue: (key: string) => void;
}
