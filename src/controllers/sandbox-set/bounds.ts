import type { SandboxSetSpec } from "../../api/kinds/sandbox-set.ts";
import { RametError } from "../../base/errors.ts";

/** How much of a pool may be missing. */
export interface Bounds {
  /** How many sandboxes may be on their way at once. */
  scale: number;
  /** How many fewer than `replicas` may be available because of a roll. 0: new ones are made beside the old ones. */
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

/**
 * A number of sandboxes, from one that is given as such or as a percentage of `total`; percentages are rounded up, as the
 * reference's code does.
 * @param field where it stands, for the message
 * @throws RametError `InvalidArgument`
 */
export function countOf(value: number | string, total: number, field: string): number {
  if (typeof value === "number" && value >= 0) return value;
  const percent = typeof value === "string" ? /^(\d{1,9})%$/.exec(value)?.[1] : undefined;
  if (percent !== undefined) return Math.ceil((Number(percent) * total) / 100);
  throw new RametError("InvalidArgument", `${field} is neither a number nor a percentage: ${JSON.stringify(value)}`, {
    hint: 'Write a number from 0 on, like 2, or a percentage in quotes, like "20%"',
  });
}
