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

/** Those of a set. A preview that does not know one of the values knows which there are. */
export function disruptionInputs(args: DisruptionArgs): Record<string, Output<string>> {
  const { onDisruption, checkpointEvery, checkpointsKept } = args;
  const chosen = output({ onDisruption, checkpointEvery, checkpointsKept }).apply(disruptionAnnotations);
  const given = defined({
    [annotations.onDisruption]: onDisruption,
    [annotations.checkpointEvery]: checkpointEvery,
    [annotations.checkpointsKept]: checkpointsKept,
  });
  return Object.fromEntries(Object.keys(given).map((key) => [key, chosen.apply((all) => all[key] ?? "")]));
}
