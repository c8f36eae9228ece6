import { GoogleAuth } from "google-auth-library";
import * as z from "zod";
import { type GcsLocation, nameOfStore } from "../../../api/store/store-address.ts";
import { type Clock, systemClock } from "../../../base/clock.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { Bucket, StoredObject } from "../bucket.ts";
import { clientCalls, type CloudErrors } from "../client-calls.ts";
import { kindOfRefusal, refusalError } from "../refusal.ts";
import { GcsRefusal, gcsRequest } from "./gcs-refusal.ts";
import { gcsSigner, type GcsSignerOptions, type RequestToSign, signGcsUrl } from "./gcs-signer.ts";

/** The maximum size of one PUT. */
const largestObjectBytes = 5 * 2 ** 40;
/** The size of one read. A broken connection costs at most this much. */
const partBytes = 8 << 20;
/** A missing object has the generation 0. */
const ifAbsent = { "x-goog-if-generation-match": "0" };

export interface GcsBucketOptions extends GcsSignerOptions {
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
