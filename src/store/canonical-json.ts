/**
 * JSON with sorted keys and no white space: equal values give equal bytes on every machine, so that a digest of them is
 * stable. Keys whose value is `undefined` are left out, as in JSON itself.
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(sorted(value));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const keys = Object.keys(value).sort();
  // A null prototype keeps a key named `__proto__` an ordinary key.
  const copy = Object.create(null) as Record<string, unknown>;
  for (const key of keys) copy[key] = sorted((value as Record<string, unknown>)[key]);
  return copy;
}
