import { createHash, sign } from "node:crypto";
import type { CredentialBody, GoogleAuth } from "google-auth-library";
import * as z from "zod";
import type { SignedRequest } from "../../../api/wire/grant.ts";
import { RametError } from "../../../base/errors.ts";
import { describeRefusal, kindOfRefusal } from "../refusal.ts";
import { gcsFailure, GcsRefusal, gcsRequest } from "./gcs-refusal.ts";

/** A service account. Only service accounts can sign URLs of Cloud Storage. */
export interface GcsSigner {
  email: string;
  /** RSA with SHA-256. */
  sign(text: string): Promise<Buffer>;
}

export interface GcsSignerOptions {
  /** The URL of the IAM Service Account Credentials API. @default Google's */
  iamCredentials?: string;
}

/**
 * Finds the signer once. With a key, it signs locally. Otherwise IAM signs with its own key (signBlob), one call per text.
 * @returns a function that throws RametError `StoreUnavailable` if the credentials are not those of a service account
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
  // For a Kubernetes service account without a Google one, GKE returns the name of the workload identity pool.
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
    const response = await gcsRequest(auth, { method: "POST", url, data, responseType: "json" });
    return Buffer.from(SignedBlob.parse(response.data).signedBlob, "base64");
  } catch (error) {
    if (!(error instanceof GcsRefusal && error.origin === url.origin)) throw error;
    const { refusal, message } = error;
    throw new RametError("StoreUnavailable", `signing failed: ${describeRefusal(refusal, "IAM")}: ${message}`, {
      hint: "Enable the IAM Service Account Credentials API, and grant the controllers' service account roles/iam.serviceAccountTokenCreator on itself",
      retryable: kindOfRefusal(refusal) === "transient",
    });
  }
}

const SignedBlob = z.object({ signedBlob: z.base64() });

function noServiceAccount(name: string): RametError {
  const subject = name === "" ? "the identity of the controllers" : name;
  return new RametError(
    "StoreUnavailable",
    `signing failed: ${subject} is not a Google service account, and only service accounts can sign`,
    {
      hint: "Let the controllers impersonate a Google service account: use ramet manifests --store-service-account, or store.gcs.serviceAccount of RametRuntime",
    },
  );
}

/** Cloud Storage accepts signatures for 7 days. Signatures by IAM end with its keys, which last at least 12 hours. */
const maximumSeconds = 12 * 3600;
const algorithm = "GOOG4-RSA-SHA256";

export interface RequestToSign {
  method: "GET" | "PUT";
  url: URL;
  /** Headers that the request must contain, with lower-case names. All headers with `x-goog-` must be signed. */
  headers: Record<string, string>;
  ttlMilliseconds: number;
}

/**
 * Signs a request of the XML API. (Source: Google's documentation of "V4 signing".)
 * @param now the start of its validity
 */
export async function signGcsUrl(
  signer: GcsSigner,
  { method, url, headers, ttlMilliseconds }: RequestToSign,
  now: Date,
): Promise<SignedRequest> {
  const seconds = Math.ceil(ttlMilliseconds / 1000);
  if (seconds > maximumSeconds) {
    throw new RametError(
      "InvalidArgument",
      `cannot sign a request for ${seconds} s: the maximum is ${maximumSeconds} s`,
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

/** Sorted by name, as the signature requires. */
function queryOf(parameters: Record<string, string>): string {
  const pairs = Object.entries(parameters).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return pairs.sort().join("&");
}
