import type { Grant } from "../../api/cell/grant.ts";
import { decodePublication, type PublicationObject } from "./publication.ts";
import { callSigned } from "./signed-http.ts";

/** More than a manifest of the most files has. */
const mostBytes = 4 << 20;

/** What is published under the id of a grant; `undefined`: nothing. */
export async function readPublished(
  grant: Extract<Grant, { driver: "objects" }>,
  signal?: AbortSignal,
): Promise<PublicationObject | undefined> {
  const { outcome, body } = await callSigned(grant.publication, { method: "GET", signal }, mostBytes);
  return outcome === "absent" ? undefined : decodePublication(body, grant);
}
