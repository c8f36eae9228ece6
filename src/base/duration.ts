import { RametError } from "./errors.ts";

/** Milliseconds of each unit. Go durations have no day, but `ttlAfterFinished` of a Checkpoint has one (`30d`). */
const unitMilliseconds: Record<string, number> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** The syntax of `ttlAfterFinished`: `30s`, `30m`, `30h`, `30d`, and sums such as `1m30s` or `1.5h`. */
export const ttlPattern = /^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$/;

/** The syntax of Go's time.ParseDuration, including the sign. `0` needs no unit. */
export const goDurationPattern = /^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$/;

/**
 * Converts a Go duration, which may contain days, to milliseconds.
 * @param field the name of the field, for the error message: `spec.ttlAfterFinished`
 * @throws RametError `InvalidArgument`
 */
export function parseDuration(text: string, field = "duration"): number {
  const body = text.length > maxCharacters ? undefined : /^[-+]?(.+)$/.exec(text)?.[1];
  if (body === "0") return 0;
  const parts = body === undefined ? [] : [...body.matchAll(/([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join("") !== body) {
    throw invalid(text, field, "is not a duration such as 90s or 2m");
  }
  const sum = parts.reduce((total, [, count, unit]) => total + Number(count) * (unitMilliseconds[unit ?? ""] ?? 0), 0);
  if (sum > maxMilliseconds) throw invalid(text, field, "is more than 292 years");
  return text.startsWith("-") ? -sum : sum;
}

/** Far more than a duration needs. */
const maxCharacters = 128;
/** The range of Go's durations. A time that is this far from now is still a valid date. */
const maxMilliseconds = 2 ** 63 / 1e6;

function invalid(text: string, field: string, why: string): RametError {
  return new RametError("InvalidArgument", `${field} ${why}: ${JSON.stringify(text.slice(0, maxCharacters))}`, {
    hint: "Write a number and a unit (s, m, h or d), like 30s, 90m, 1h30m or 30d",
  });
}
