/**
 * Serializes a value so that equal values have equal text: keys are sorted by code unit as in RFC 8785, and there is no
 * white space. Like JSON.stringify, it omits `undefined` in objects and writes it as `null` in arrays.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalJson(item ?? null)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    .map(([key, inner]) => `${JSON.stringify(key)}:${canonicalJson(inner)}`);
  return `{${members.join(",")}}`;
}

/** Parses a text of somebody else. Undefined for what is no JSON. */
export function jsonValue(text = ""): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
