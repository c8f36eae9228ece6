import { type Input, type Output, output } from "@pulumi/pulumi";
import { annotations } from "../src/api/names/labels.ts";
import { chosenDisruption } from "../src/api/pod/disruption.ts";
import { defined } from "../src/base/defined.ts";
import { runError } from "./run-error.ts";

/** What becomes of a sandbox whose Pod is lost. */
export interface DisruptionArgs {
  /**
   * What becomes of sandboxes whose Pods others end, as a drain does: `Migrate`, `Pause` or `End`.
   * @default that of the namespace or the runtime
   */
  onDisruption?: Input<"Migrate" | "Pause" | "End">;
  /**
   * How often a running sandbox is captured, to continue from there if its Pod is lost, such as `10m`; from `1m` to `24h`, or `none`.
   * @default that of the namespace or the runtime
   */
  checkpointEvery?: Input<string>;
  /** How many of these checkpoints each sandbox keeps, from 1 to 10. @default 2 */
  checkpointsKept?: Input<number>;
}

interface Known {
  onDisruption?: string | undefined;
  checkpointEvery?: string | undefined;
  checkpointsKept?: number | undefined;
}

/** The annotations of a Pod template. @throws RunError */
export function disruptionAnnotations({
  onDisruption,
  checkpointEvery,
  checkpointsKept,
}: Known): Record<string, string> {
  const chosen = defined({
    [annotations.onDisruption]: onDisruption,
    [annotations.checkpointEvery]: checkpointEvery,
    [annotations.checkpointsKept]: checkpointsKept?.toString(),
  });
  try {
    return chosenDisruption(chosen, "metadata");
  } catch (error) {
    throw runError(error);
  }
}

/** The annotations of a set. */
export function withDisruption(
  { onDisruption, checkpointEvery, checkpointsKept }: DisruptionArgs,
  others: Record<string, Input<string>>,
): Output<Record<string, string>> {
  return output({ onDisruption, checkpointEvery, checkpointsKept, others }).apply(({ others: own, ...known }) => ({
    ...disruptionAnnotations(known),
    ...own,
  }));
}
