import { createHmac, timingSafeEqual } from "node:crypto";
import * as z from "zod";
import { RametError } from "../../../base/errors.ts";

/** Below it are the links. */
export const uploadPath = "/templates/uploads";

/** How long a link is valid, and how long an upload may take: as long as the SDKs wait. */
export const longestUploadMilliseconds = 3_600_000;

/** What the bearer of a link may do: upload one tree to one namespace, until the link expires. */
const UploadLink = z.strictObject({
  namespace: z.string().min(1),
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  /** The API key whose limits the tree counts for. */
  owner: z.string().min(1),
  /** Milliseconds since 1970. */
  expiresAt: z.number(),
});
export type UploadLink = z.infer<typeof UploadLink>;

/** Signs a link. Every replica can check it, because they share the secret. */
export function signUploadLink(link: UploadLink, secret: Buffer): string {
  const payload = Buffer.from(JSON.stringify(link)).toString("base64url");
  return `${payload}.${signature(payload, secret)}`;
}

/** @throws RametError `Unauthorized` */
export function readUploadLink(text: string, secret: Buffer, now: Date): UploadLink {
  const [payload = "", given = ""] = text.split(".");
  const expected = Buffer.from(signature(payload, secret));
  const actual = Buffer.from(given);
  if (actual.length !== expected.length || !timingSafeEqual(actual, expected)) throw refused("is not valid");
  const link = UploadLink.parse(JSON.parse(Buffer.from(payload, "base64url").toString()));
  if (link.expiresAt <= now.getTime()) throw refused("has expired");
  return link;
}

/** The context separates it from the other tokens that are derived from the secret. */
function signature(payload: string, secret: Buffer): string {
  return createHmac("sha256", secret).update(`upload:${payload}`).digest("base64url");
}

function refused(why: string): RametError {
  return new RametError("Unauthorized", `The upload link ${why}`, { hint: "Start the build again" });
}
