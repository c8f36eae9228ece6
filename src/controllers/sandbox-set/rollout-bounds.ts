import type { SandboxSetSpec } from "../../api/kinds/sandbox-set.ts";
import { RametError } from "../../base/errors.ts";

export interface Bounds {
  /** Maximum number of sandboxes that start at the same time. */
  scale: number;
  /** Maximum number of unavailable sandboxes during a roll. 0: new sandboxes are created before old ones are deleted. */
  update: number;
}

/** @throws RametError `InvalidArgument`, naming the field */
export function boundsOf({ replicas, scaleStrategy, updateStrategy }: SandboxSetSpec): Bounds {
  const maxUnavailable = scaleStrategy?.maxUnavailable;
  const scale =
    maxUnavailable === undefined
      ? Number.POSITIVE_INFINITY
      : countOf(maxUnavailable, replicas, "spec.scaleStrategy.maxUnavailable");
  if (scale === 0 && replicas > 0) {
    throw new RametError("InvalidArgument", "spec.scaleStrategy.maxUnavailable is 0, so no sandbox can start", {
      hint: "Set it to 1 or more, or remove it to start all sandboxes at the same time",
    });
  }
  return {
    scale,
    update: countOf(
      updateStrategy?.maxUnavailable ?? defaultUnavailable(replicas),
      replicas,
      "spec.updateStrategy.maxUnavailable",
    ),
  };
}

/** A set of one is not left without a ready sandbox for a new one that may not start. */
function defaultUnavailable(replicas: number): number | string {
  return replicas === 1 ? 0 : "20%";
}

/**
 * A number of sandboxes, given as a number or as a percentage of `total`. Percentages are rounded up, as in OpenKruise Agents.
 * @param field its path, for the error message
 * @throws RametError `InvalidArgument`
 */
export function countOf(value: number | string, total: number, field: string): number {
  if (typeof value === "number" && value >= 0) return value;
  const percent = typeof value === "string" ? /^(\d{1,9})%$/.exec(value)?.[1] : undefined;
  if (percent !== undefined) return Math.ceil((Number(percent) * total) / 100);
  throw new RametError("InvalidArgument", `${field} is neither a number nor a percentage: ${JSON.stringify(value)}`, {
    hint: 'Write a number of at least 0, like 2, or a quoted percentage, like "20%"',
  });
}
