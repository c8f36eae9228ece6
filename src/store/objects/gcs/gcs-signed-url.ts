import { createHash } from "node:crypto";
import type { SignedRequest } from "../../../api/cell/grant.ts";
import { RametError } from "../../../base/errors.ts";
import type { GoogleSigner } from "./gcs-signer.ts";

/** Cloud Storage takes signatures for 7 days. Those by IAM end with its keys, which last for at least 12 hours. */
const mostSeconds = 12 * 3600;
const algorithm = "GOOG4-RSA-SHA256";

export interface RequestToSign {
  method: "GET" | "PUT";
  url: URL;
  /** Which must be sent with it: names in small letters. Google wants each of its own (`x-goog-…`) that is sent to be signed. */
  headers: Record<string, string>;
  ttlMilliseconds: number;
}

/**
 * A request of the XML API, signed as Google's documentation of "V4 signing" says it.
 * @param now milliseconds since 1970, from when on it is good
 */
export async function signGoogleUrl(
  signer: GoogleSigner,
  { method, url, headers, ttlMilliseconds }: RequestToSign,
  now: number,
): Promise<SignedRequest> {
  const seconds = Math.ceil(ttlMilliseconds / 1000);
  if (seconds > mostSeconds) {
    throw new RametError(
      "InvalidArgument",
      `a request is signed for ${mostSeconds} s at most, and not for ${seconds} s`,
    );
  }
  const time = new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const scope = `${time.slice(0, 8)}/auto/storage/goog4_request`;
  const signed = Object.entries({ host: url.host, ...headers }).sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(";");
  const query = queryOf({
    "X-Goog-Algorithm": algorithm,
    "X-Goog-Credential": `${signer.email}/${scope}`,
    "X-Goog-Date": time,
    "X-Goog-Expires": String(seconds),
    "X-Goog-SignedHeaders": names,
  });
  const lines = signed.map(([name, value]) => `${name}:${value}\n`).join("");
  const canonical = [method, url.pathname, query, lines, names, "UNSIGNED-PAYLOAD"].join("\n");
  const digest = createHash("sha256").update(canonical).digest("hex");
  const signature = await signer.sign([algorithm, time, scope, digest].join("\n"));
  return { url: `${url.origin}${url.pathname}?${query}&X-Goog-Signature=${signature.toString("hex")}`, headers };
}

/** In the order that is signed, which is that of the names. */
function queryOf(parameters: Record<string, string>): string {
  const pairs = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return pairs.sort().join("&");
}
