import { ContainerClient, RestError, type StoragePipelineOptions, StorageResponseFormat } from "@azure/storage-blob";
import type { SignedRequest } from "../../../api/wire/grant.ts";
import { type AzureLocation, nameOfStore } from "../../../api/store/store-address.ts";
import { type Clock, onAbort, systemClock } from "../../../base/clock.ts";
import { within } from "../../../base/within.ts";
import type { Bucket, StoredObject } from "../bucket.ts";
import { clientCalls, type CloudErrors } from "../client-calls.ts";
import { azureAccess, type AzurePermission, serviceVersion } from "./azure-signing.ts";

/** The maximum size of one PUT of a blob, since service version 2019-12-12. */
const largestObjectBytes = 5_000 * 2 ** 20;

/**
 * A prefix of a container of Azure Blob Storage. The controllers use the account's key from the environment, or the default
 * credentials of Azure: AKS workload identity, a service principal from the environment, the node's identity, or `az login`.
 */
export function azureBucket(location: AzureLocation, { clock = systemClock }: { clock?: Clock } = {}): Bucket {
  const { account, container, prefix, endpoint: configuredEndpoint } = location;
  const endpoint = (configuredEndpoint ?? `https://${account}.blob.core.windows.net`).replace(/\/$/, "");
  const access = azureAccess({ account, container, endpoint }, { clock, pipeline: options });
  const client = new ContainerClient(`${endpoint}/${container}`, access.credential, options);
  const name = nameOfStore(location);
  const root = prefix === undefined ? "" : `${prefix}/`;
  const { call, callUnless, chunks } = clientCalls(name, azureErrors(account));
  const blobAt = (key: string) => client.getBlockBlobClient(`${root}${key}`);

  async function sign(key: string, permission: AzurePermission, ttlMilliseconds: number): Promise<SignedRequest> {
    const blob = blobAt(key);
    const { during } = silenceLimit({ clock });
    const signed = () => during(() => access.sign(blob.name, permission, ttlMilliseconds));
    const query = await call({ verb: "signing a request to" }, signed);
    return { url: `${blob.url}?${query}`, headers: { "x-ms-version": serviceVersion } };
  }

  return {
    name,
    largestObjectBytes,
    putIfAbsent: async (key, bytes) => {
      const { signal: abortSignal, during } = silenceLimit({ clock });
      const conditions = { ifNoneMatch: "*" };
      const put = () => blobAt(key).upload(bytes, bytes.length, { conditions, abortSignal });
      const done = await callUnless("exists", { verb: "writing", key, writes: true }, () => during(put));
      return done !== undefined;
    },
    read: async (key, signal) => {
      const what = { verb: "reading", key };
      const { signal: abortSignal, during, chunks: limited } = silenceLimit({ clock, signal });
      const get = () => blobAt(key).download(0, undefined, { abortSignal });
      const response = await callUnless("absent", what, () => during(get));
      return response && chunks(what, limited(response.readableStreamBody as unknown as AsyncIterable<Uint8Array>));
    },
    async *list(below, signal) {
      const { signal: abortSignal, during } = silenceLimit({ clock, signal });
      const pages = client.listBlobsFlat({ prefix: `${root}${below}`, responseFormat, abortSignal }).byPage();
      for (;;) {
        const page = await call({ verb: "listing" }, () => during(() => pages.next()));
        if (page.done === true) return;
        for (const { name: key, properties } of page.value.segment.blobItems) {
          const { contentLength: sizeBytes = 0, lastModified } = properties;
          yield { key: key.slice(root.length), sizeBytes, writtenAt: lastModified.getTime() } satisfies StoredObject;
        }
      }
    },
    delete: async (key) => {
      const { signal: abortSignal, during } = silenceLimit({ clock });
      const remove = () => blobAt(key).delete({ abortSignal, deleteSnapshots: "include" });
      await callUnless("absent", { verb: "deleting", key, writes: true }, () => during(remove));
    },
    signGet: (key, ttlMilliseconds) => sign(key, "r", ttlMilliseconds),
    signPutIfAbsent: async (key, ttlMilliseconds) => {
      // The signature already forbids overwriting. The condition makes the store report an existing blob.
      const { url, headers } = await sign(key, "c", ttlMilliseconds);
      return { url, headers: { ...headers, "x-ms-blob-type": "BlockBlob", "if-none-match": "*" } };
    },
  };
}

/** The other format needs a large library, which is not bundled. */
const responseFormat = StorageResponseFormat.Xml;

const options: StoragePipelineOptions = {
  retryOptions: { maxTries: 4, retryDelayInMs: 200, maxRetryDelayInMs: 5_000 },
};

function azureErrors(account: string): CloudErrors {
  return {
    refusalOf: (error) =>
      error instanceof RestError && error.statusCode !== undefined
        ? { status: error.statusCode, word: error.code }
        : { cause: error },
    hasNoCredentials: ({ name }) => credentialErrors.has(name),
    identityHint:
      "Give the controllers a managed identity (AKS workload identity), or set AZURE_STORAGE_KEY to the account's key",
    rightsHint: `Grant the role Storage Blob Data Contributor on the storage account ${account}, or set AZURE_STORAGE_KEY to its key`,
  };
}

/** The errors of @azure/identity if it finds no credentials, or Entra ID rejects them. */
const credentialErrors = new Set([
  "AggregateAuthenticationError",
  "AuthenticationError",
  "AuthenticationRequiredError",
  "CredentialUnavailableError",
]);

/** The longest time that a cloud may send nothing while a controller waits for it, the client's own retries included. */
export const silenceMilliseconds = 60_000;

/** Bounds the waits of a client that has no time limit: without it, a request that gets no response waits forever. */
export function silenceLimit({ clock, signal }: { clock: Clock; signal?: AbortSignal | undefined }) {
  const ended = new AbortController();
  const deadline = { clock, milliseconds: silenceMilliseconds, what: "the request", signal };

  /** Waits for `operation`. @throws RametError `Timeout` when it takes too long */
  const during = <T>(operation: () => Promise<T>): Promise<T> =>
    within(deadline, (expired) => {
      onAbort(expired, () => {
        ended.abort();
      });
      return operation();
    }).catch((error: unknown) => {
      // The client keeps the connection of a response that it refuses, until the server closes it.
      ended.abort();
      throw error;
    });

  return {
    /** For the client: it aborts with the caller's signal, or when the cloud is silent for too long. */
    signal: signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal]),
    during,
    /** Yields the chunks of a body; each chunk has the full time. */
    async *chunks<T>(this: void, body: AsyncIterable<T>) {
      const chunks = body[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await during(() => chunks.next());
          if (next.done === true) return;
          yield next.value;
        }
      } finally {
        await chunks.return?.();
      }
    },
  };
}
