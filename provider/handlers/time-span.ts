import { parseDuration } from "../../src/base/duration.ts";
import { RametError } from "../../src/base/errors.ts";

/**
 * Parses a duration into milliseconds: `8 hours`, `30 minutes`, `1 day`, or the short form `8h`.
 * @param field the field's name, for the error message
 * @throws RametError `InvalidArgument`
 */
export function parseTimeSpan(text: string, field: string): number {
  const words = /^\s*(\d+(?:\.\d+)?)\s*(second|minute|hour|day|week)s?\s*$/.exec(text);
  const unit = unitMilliseconds.get(words?.[2] ?? "");
  const milliseconds = unit === undefined ? parseDuration(text, field) : Number(words?.[1]) * unit;
  if (milliseconds > 0) return milliseconds;
  throw new RametError("InvalidArgument", `${field} must be greater than zero: ${JSON.stringify(text)}`);
}

const unitMilliseconds: ReadonlyMap<string, number> = new Map([
  ["second", 1000],
  ["minute", 60_000],
  ["hour", 3_600_000],
  ["day", 86_400_000],
  ["week", 604_800_000],
]);
