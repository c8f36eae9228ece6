import { createHash, verify } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { GcsAccount } from "./google-account.ts";

export interface ReceivedRequest {
  method: string;
  /** Path and query as received. */
  target: string;
  headers: IncomingHttpHeaders;
}

/**
 * Returns the error code with which Cloud Storage rejects a signed request. `undefined`: the signature is valid, from the
 * account, and not expired.
 */
export function refusalOfSignature(request: ReceivedRequest, account: GcsAccount): string | undefined {
  const [path = "", queryText = ""] = request.target.split("?");
  const query = new URLSearchParams(queryText);
  const parameter = (name: string): string => query.get(`X-Goog-${name}`) ?? "";
  const [time, names] = [parameter("Date"), parameter("SignedHeaders").split(";")];
  const scope = `${time.slice(0, 8)}/auto/storage/goog4_request`;
  const isKnown =
    parameter("Algorithm") === "GOOG4-RSA-SHA256" && parameter("Credential") === `${account.email}/${scope}`;
  const ofGoogle = Object.keys(request.headers).filter((name) => name.startsWith("x-goog-"));
  if (!isKnown || !["host", ...ofGoogle].every((name) => names.includes(name))) return "SignatureDoesNotMatch";
  const lines = names.map((name) => `${name}:${String(request.headers[name]).trim()}\n`).join("");
  const pairs = queryText.split("&").filter((pair) => !pair.startsWith("X-Goog-Signature="));
  const canonical = [request.method, path, pairs.sort().join("&"), lines, names.join(";"), "UNSIGNED-PAYLOAD"];
  const digest = createHash("sha256").update(canonical.join("\n")).digest("hex");
  const text = Buffer.from(["GOOG4-RSA-SHA256", time, scope, digest].join("\n"));
  if (!verify("RSA-SHA256", text, account.publicKey, Buffer.from(parameter("Signature"), "hex"))) {
    return "SignatureDoesNotMatch";
  }
  const seconds = Number(parameter("Expires"));
  const begins = Date.parse(time.replace(/^(....)(..)(..T..)(..)(..)Z$/, "$1-$2-$3:$4:$5Z"));
  const isTimely = seconds > 0 && seconds <= 604_800 && begins <= Date.now() + 900_000;
  return isTimely && Date.now() <= begins + seconds * 1000 ? undefined : "ExpiredToken";
}
