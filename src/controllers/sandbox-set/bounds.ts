import { countOf } from "./int-or-percent.ts";
import { RametError } from "../../base/errors.ts";
import type { SandboxSetSpec } from "../../api/kinds/sandbox-set.ts";

/** How much of a pool may be missing. */
export interface Bounds {
  /** How many sandboxes may be on their way at once. */
  scale: number;
  /** How many fewer than `replicas` may be available because of a roll. 0: new ones are made beside the old ones. */
  update: number;
}

/** @throws RametError `InvalidArgument`, naming the field */
export function boundsOf({ replicas, scaleStrategy, updateStrategy }: SandboxSetSpec): Bounds {
  const wished = scaleStrategy?.maxUnavailable;
  const scale =
    wished === undefined ? Number.POSITIVE_INFINITY : countOf(wished, replicas, "spec.scaleStrategy.maxUnavailable");
  if (scale === 0 && replicas > 0) {
    throw new RametError(
      "InvalidArgument",
      "spec.scaleStrategy.maxUnavailable is 0: no sandbox could ever be started",
      {
        hint: "Give 1 or more, or leave it out to start all at once",
      },
    );
  }
  return {
    scale,
    update: countOf(updateStrategy?.maxUnavailable ?? "20%", replicas, "spec.updateStrategy.maxUnavailable"),
  };
}
