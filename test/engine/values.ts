/** Plain JSON, as in a state file or a request. */
export type Values = Record<string, unknown>;

/** How Pulumi marks values on the wire (`sdk/nodejs/runtime/rpc.ts`). */
export const signatureKey = "4dabf18193072939515e22adb298388d";
export const secretSignature = "1b47061264138c4ac30d75fd1eb44270";
export const unknownText = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/** Removes the marks from a value. */
export function unmarked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unmarked);
  if (typeof value !== "object" || value === null) return value;
  if (isSecret(value)) return unmarked(value["value"]);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, unmarked(inner)]));
}

/** The properties that contain a secret. */
export function secretProperties(values: Values): string[] {
  return Object.keys(values).filter((key) => holdsSecret(values[key]));
}

/** Marks these properties as secrets. */
export function marked(values: Values, secrets: readonly string[]): Values {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      key,
      secrets.includes(key) ? { [signatureKey]: secretSignature, value } : value,
    ]),
  );
}

function holdsSecret(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return isSecret(value) || Object.values(value).some(holdsSecret);
}

function isSecret(value: object): value is { value: unknown } {
  return signatureKey in value && value[signatureKey] === secretSignature;
}
