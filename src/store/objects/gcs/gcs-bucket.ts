import { createHash, sign } from "node:crypto";
import { type CredentialBody, GoogleAuth } from "google-auth-library";
import * as z from "zod";
import { type GcsLocation, nameOfStore } from "../../../api/store/store-address.ts";
import type { SignedRequest } from "../../../api/wire/grant.ts";
import { type Clock, systemClock } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { Bucket, StoredObject } from "../bucket.ts";
import { type CloudErrors, clientCalls } from "../client-calls.ts";
import { describeRefusal, kindOfRefusal, refusalError } from "../refusal.ts";
import { GcsRefusal, gcsFailure, gcsRequest } from "./gcs-refusal.ts";

/** The maximum size of one PUT. */
const largestObjectBytes = 5 * 2 ** 40;
/** The size of one read. A broken connection costs at most this much. */
const partBytes = 8 << 20;
/** A missing object has the generation 0. */
const ifAbsent = { "x-goog-if-generation-match": "0" };

interface GcsBucketOptions extends GcsSignerOptions {
  /** @default the system's clock */
  clock?: Clock;
}

/**
 * A prefix of a bucket of Google Cloud Storage. Reads and writes objects by the XML API, like the cells, because it returns error
 * codes. Lists objects by the JSON API.
 */
export function gcsBucket(location: GcsLocation, options: GcsBucketOptions = {}): Bucket {
  const { bucket, prefix, endpoint = "https://storage.googleapis.com" } = location;
  const { clock = systemClock } = options;
  const name = nameOfStore(location);
  const root = prefix === undefined ? "" : `${prefix}/`;
  const auth = gcsCredentials();
  const signer = gcsSigner(auth, options);
  const { call, callUnless } = clientCalls(name, gcsErrors(name, endpoint));
  // Names and keys contain no characters that a URL encodes.
  const urlOf = (key: string): URL => new URL(`/${bucket}/${root}${key}`, endpoint);

  const sign = (request: RequestToSign) =>
    call({ verb: "signing a request to" }, async () => signGcsUrl(await signer(), request, clock.now()));

  /** Reads one part of an object. `undefined`: the object does not exist. */
  async function readPart(key: string, from: number, signal: AbortSignal | undefined): Promise<Buffer | undefined> {
    const headers = { range: `bytes=${from}-${from + partBytes - 1}` };
    const request = { method: "GET", url: urlOf(key), headers, responseType: "arraybuffer", signal } as const;
    const answer = await callUnless("absent", { verb: "reading", key }, () => gcsRequest(auth, request));
    if (answer === undefined) return undefined;
    return answer.status === 416 ? Buffer.alloc(0) : Buffer.from(answer.data as ArrayBuffer);
  }

  async function* partsOf(key: string, first: Buffer, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    let from = 0;
    // An object that is deleted meanwhile ends early. The caller detects that by the hash.
    for (let part: Buffer | undefined = first; part !== undefined; part = await readPart(key, from, signal)) {
      yield part;
      from += part.length;
      if (part.length < partBytes) return;
    }
  }

  return {
    name,
    largestObjectBytes,
    putIfAbsent: async (key, data) => {
      const request = { method: "PUT", url: urlOf(key), headers: ifAbsent, data } as const;
      const what = { verb: "writing", key, writes: true };
      return (await callUnless("exists", what, () => gcsRequest(auth, request))) !== undefined;
    },
    read: async (key, signal) => {
      const first = await readPart(key, 0, signal);
      return first && partsOf(key, first, signal);
    },
    async *list(below, signal) {
      const url = new URL(`/storage/v1/b/${bucket}/o`, endpoint);
      const query = {
        prefix: `${root}${below}`,
        maxResults: "1000",
        fields: "items(name,size,timeCreated),nextPageToken",
      };
      let after: string | undefined;
      do {
        url.search = new URLSearchParams({ ...query, ...defined({ pageToken: after }) }).toString();
        const request = { method: "GET", url, responseType: "json", signal } as const;
        const answer = await callUnless("absent", { verb: "listing" }, () => gcsRequest(auth, request));
        // For a listing, 404 means that the bucket is missing. The JSON API has no error code for that.
        if (answer === undefined) throw refusalError(`listing ${name}`, { status: 404, word: "NoSuchBucket" });
        const { items, nextPageToken } = pageOf(answer.data, name);
        for (const { name: key, size: sizeBytes, timeCreated } of items) {
          yield { key: key.slice(root.length), sizeBytes, writtenAt: Date.parse(timeCreated) } satisfies StoredObject;
        }
        after = nextPageToken;
      } while (after !== undefined);
    },
    delete: async (key) => {
      const request = { method: "DELETE", url: urlOf(key) } as const;
      await callUnless("absent", { verb: "deleting", key, writes: true }, () => gcsRequest(auth, request));
    },
    signGet: (key, ttlMilliseconds) => sign({ method: "GET", url: urlOf(key), headers: {}, ttlMilliseconds }),
    signPutIfAbsent: (key, ttlMilliseconds) =>
      sign({ method: "PUT", url: urlOf(key), headers: ifAbsent, ttlMilliseconds }),
  };
}

const Page = z.object({
  items: z
    .array(
      z.object({
        name: z.string(),
        size: z.coerce.number().int().nonnegative(),
        timeCreated: z.iso.datetime({ offset: true }),
      }),
    )
    .default([]),
  nextPageToken: z.string().min(1).optional(),
});

function pageOf(data: unknown, store: string): z.infer<typeof Page> {
  const page = Page.safeParse(data);
  if (page.success) return page.data;
  throw new RametError("StoreUnavailable", `listing ${store} failed: the response is not a list of objects`, {
    cause: page.error,
    hint: "Check that the store's endpoint is that of Cloud Storage",
  });
}

/** The time limit of one call. No call transfers more than one part of an object. */
const callMilliseconds = 30_000;

/**
 * The Application Default Credentials: a key or a federation that `GOOGLE_APPLICATION_CREDENTIALS` names, gcloud's credentials,
 * the workload identity of GKE, or the node's identity.
 */
function gcsCredentials(): GoogleAuth {
  const auth = new GoogleAuth({
    scopes: ["https://www.googleapis.com/auth/cloud-platform"],
    clientOptions: { transporterOptions: { timeout: callMilliseconds } },
  });
  // With a key, the library signs tokens itself instead of requesting them.
  auth.useJWTAccessWithScope = true;
  return auth;
}

function gcsErrors(store: string, endpoint: string): CloudErrors {
  const { origin } = new URL(endpoint);
  return {
    refusalOf: (error) => (error instanceof GcsRefusal && error.origin === origin ? error.refusal : { cause: error }),
    // A refusal of another server concerns the credentials.
    hasNoCredentials: (error) =>
      !(error instanceof GcsRefusal) || (error.origin !== origin && kindOfRefusal(error.refusal) !== "transient"),
    identityHint:
      "Give the controllers a Google service account by workload identity, or set GOOGLE_APPLICATION_CREDENTIALS to the file of a key or a federation",
    rightsHint: `Grant roles/storage.objectUser on the bucket of ${store} to the controllers' service account`,
  };
}

/** A service account. Only service accounts can sign URLs of Cloud Storage. */
interface GcsSigner {
  email: string;
  /** RSA with SHA-256. */
  sign(text: string): Promise<Buffer>;
}

interface GcsSignerOptions {
  /** The URL of the IAM Service Account Credentials API. @default Google's */
  iamCredentials?: string;
}

/**
 * Finds the signer once. With a key, it signs locally. Otherwise IAM signs with its own key (signBlob), one call per text.
 * @returns a function that throws RametError `StoreUnavailable` if the credentials are not those of a service account
 */
function gcsSigner(auth: GoogleAuth, options: GcsSignerOptions): () => Promise<GcsSigner> {
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

interface RequestToSign {
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
async function signGcsUrl(
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
