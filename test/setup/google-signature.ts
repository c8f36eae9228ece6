import { createHash, verify } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { GcsAccount } from "./google-account.ts";

export interface ReceivedRequest {
  method: string;
  /** Path and query, as they came. */
  target: string;
  headers: IncomingHttpHeaders;
}

/** The word with which Cloud Storage refuses a signed request; `undefined`: it is well signed, by the account, and its time is not over. */
export function refusalOfSignature(request: ReceivedRequest, account: GcsAccount): string | undefined {
  const [path = "", queryText = ""] = request.target.split("?");
  const query = new URLSearchParams(queryText);
  const said = (name: string): string => query.get(`X-Goog-${name}`) ?? "";
  const [time, names] = [said("Date"), said("SignedHeaders").split(";")];
  const scope = `${time.slice(0, 8)}/auto/storage/goog4_request`;
  const isKnown = said("Algorithm") === "GOOG4-RSA-SHA256" && said("Credential") === `${account.email}/${scope}`;
  const ofGoogle = Object.keys(request.headers).filter((name) => name.startsWith("x-goog-"));
  if (!isKnown || !["host", ...ofGoogle].every((name) => names.includes(name))) return "SignatureDoesNotMatch";
  const lines = names.map((name) => `${name}:${String(request.headers[name]).trim()}\n`).join("");
  const pairs = queryText.split("&").filter((pair) => !pair.startsWith("X-Goog-Signature="));
  const canonical = [request.method, path, pairs.sort().join("&"), lines, names.join(";"), "UNSIGNED-PAYLOAD"];
  const digest = createHash("sha256").update(canonical.join("\n")).digest("hex");
  const text = Buffer.from(["GOOG4-RSA-SHA256", time, scope, digest].join("\n"));
  if (!verify("RSA-SHA256", text, account.publicKey, Buffer.from(said("Signature"), "hex"))) {
    return "SignatureDoesNotMatch";
  }
  const seconds = Number(said("Expires"));
  const begins = Date.parse(time.replace(/^(....)(..)(..T..)(..)(..)Z$/, "$1-$2-$3:$4:$5Z"));
  const isTimely = seconds > 0 && seconds <= 604_800 && begins <= Date.now() + 900_000;
  return isTimely && Date.now() <= begins + seconds * 1000 ? undefined : "ExpiredToken";
}
