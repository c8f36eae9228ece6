import { createHash } from "node:crypto";

/**
 * The id of a request that can be repeated, in the form of a UUID; undefined without a key of the client.
 * @param owner whose keys these are
 * @param given the header `Idempotency-Key`
 */
export function requestIdOf(owner: string, given: string | string[] | undefined): string | undefined {
  const key = [given].flat()[0];
  if (key === undefined || key === "") return undefined;
  const hex = createHash("sha256")
    .update(JSON.stringify([owner, key]))
    .digest("hex");
  return hex.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, "$1-$2-8$3-8$4-$5");
}
