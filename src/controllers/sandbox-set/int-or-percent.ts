import { RametError } from "../../base/errors.ts";

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
