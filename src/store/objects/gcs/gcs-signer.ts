import { createHash, sign } from "node:crypto";
import type { CredentialBody, GoogleAuth } from "google-auth-library";
import * as z from "zod";
import type { SignedRequest } from "../../../api/cell/grant.ts";
import { RametError } from "../../../base/errors.ts";
import { kindOfRefusal, sayRefusal } from "../refusal.ts";
import { gcsFailure, GcsRefusal } from "./gcs-refusal.ts";
import { gcsRequest } from "./gcs-request.ts";

/** A service account: nobody else can sign a URL of Cloud Storage. */
export interface GcsSigner {
  email: string;
  /** RSA with SHA-256. */
  sign(text: string): Promise<Buffer>;
}

export interface GcsSignerOptions {
  /** Where the IAM Service Account Credentials API is. @default Google's */
  iamCredentials?: string;
}

/**
 * Who signs, found once. Who has a key signs here; for others IAM signs with a key of its own (signBlob), one call for each text.
 * @returns a function that throws RametError `StoreUnavailable` where the credentials are of no service account
 */
export function gcsSigner(auth: GoogleAuth, options: GcsSignerOptions): () => Promise<GcsSigner> {
  let found: Promise<GcsSigner> | undefined;
  return () => {
    found ??= findSigner(auth, options).catch((error: unknown) => {
      found = undefined;
      throw error;
    });
    return found;
  };
}

async function findSigner(auth: GoogleAuth, { iamCredentials }: GcsSignerOptions): Promise<GcsSigner> {
  const { client_email: email = "", private_key: key } = await credentialsOf(auth);
  // GKE's metadata server calls a Kubernetes service account that stands for no Google one after its workload identity pool.
  if (!email.includes("@")) throw noServiceAccount(email);
  if (key !== undefined) return { email, sign: (text) => Promise.resolve(sign("RSA-SHA256", Buffer.from(text), key)) };
  const iam = iamCredentials ?? `https://iamcredentials.${await auth.getUniverseDomain()}`;
  const url = new URL(`/v1/projects/-/serviceAccounts/${email}:signBlob`, iam);
  return { email, sign: (text) => signBlob(auth, url, text) };
}

async function credentialsOf(auth: GoogleAuth): Promise<CredentialBody> {
  try {
    return await auth.getCredentials();
  } catch (error) {
    throw gcsFailure(error);
  }
}

async function signBlob(auth: GoogleAuth, url: URL, text: string): Promise<Buffer> {
  const data = { payload: Buffer.from(text).toString("base64") };
  try {
    const answer = await gcsRequest(auth, { method: "POST", url, data, responseType: "json" });
    return Buffer.from(SignedBlob.parse(answer.data).signedBlob, "base64");
  } catch (error) {
    if (!(error instanceof GcsRefusal && error.origin === url.origin)) throw error;
    const { refusal, message } = error;
    throw new RametError("StoreUnavailable", `signing failed: ${sayRefusal(refusal, "IAM")}: ${message}`, {
      hint: "Enable the IAM Service Account Credentials API, and give the controllers' service account roles/iam.serviceAccountTokenCreator on itself.",
      retryable: kindOfRefusal(refusal) === "passing",
    });
  }
}

const SignedBlob = z.object({ signedBlob: z.base64() });

function noServiceAccount(name: string): RametError {
  const who = name === "" ? "the credentials are of" : `${name} is`;
  return new RametError(
    "StoreUnavailable",
    `signing failed: ${who} no service account of Google, and only such can sign`,
    {
      hint: "Let the controllers' Kubernetes service account stand for a Google one: ramet manifests --store-service-account, or RametRuntime's store.gcs.serviceAccount.",
    },
  );
}

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
 * @param now the start of its validity
 */
export async function signGcsUrl(
  signer: GcsSigner,
  { method, url, headers, ttlMilliseconds }: RequestToSign,
  now: Date,
): Promise<SignedRequest> {
  const seconds = Math.ceil(ttlMilliseconds / 1000);
  if (seconds > mostSeconds) {
    throw new RametError(
      "InvalidArgument",
      `a request is signed for ${mostSeconds} s at most, and not for ${seconds} s`,
    );
  }
  const time = now.toISOString().replaceAll(/[-:]|\.\d+/g, "");
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
