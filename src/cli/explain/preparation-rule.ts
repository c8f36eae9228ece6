import { preparationOf, preparationRemedy, preparedPrograms } from "../../kube/volumes/preparation.ts";
import type { Found } from "./explanation.ts";
import { secondsSince, valueOf } from "./facts.ts";
import type { VolumeSnapshotFacts } from "./volume-facts.ts";

/** A local cluster builds the programs of snapshots once. That time does not count against the limit of a checkpoint. */
export function preparing({ driver, now }: Pick<VolumeSnapshotFacts, "driver" | "now">): Found | undefined {
  const metadata = valueOf(driver)?.metadata;
  const preparation = metadata && preparationOf(metadata);
  if (preparation === undefined || preparation.until !== undefined) return undefined;
  const { since, failure } = preparation;
  const what = `The local cluster prepares ${preparedPrograms}`;
  if (failure === undefined)
    return {
      state: "waiting",
      reason: "Preparing",
      cause: `${what}, for ${secondsSince(since, now)} s now`,
      retry: "The snapshot is taken when both programs are available",
      action: "Follow the progress with: ramet local status",
    };
  return {
    reason: "PreparationFailed",
    cause: `${what}, and the last attempt failed: ${failure}`,
    retry: "The preparation is repeated every few minutes",
    action: preparationRemedy,
  };
}
