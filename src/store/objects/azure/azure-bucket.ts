import { ContainerClient, RestError, type StoragePipelineOptions, StorageResponseFormat } from "@azure/storage-blob";
import type { SignedRequest } from "../../../api/cell/grant.ts";
import { type AzureLocation, nameOfStore } from "../../../api/store/store-address.ts";
import { type Clock, systemClock } from "../../../base/clock.ts";
import type { Bucket, StoredObject } from "../bucket.ts";
import { clientCalls, type CloudErrors } from "../client-calls.ts";
import { silenceLimit } from "../silence-limit.ts";
import { azureAccess, type AzurePermission, serviceVersion } from "./azure-signing.ts";

/** What Azure takes in one PUT of a blob, since version 2019-12-12 of the service. */
const largestObjectBytes = 5_000 * 2 ** 20;

/**
 * A part of a container of Azure Blob. The controllers are who holds the account's key of the environment, or whom Azure's own
 * tools would find: AKS workload identity, a service principal of the environment, the node's identity, `az login`.
 */
export function azureBucket(location: AzureLocation, { clock = systemClock }: { clock?: Clock } = {}): Bucket {
  const { account, container, prefix, endpoint: given } = location;
  const endpoint = (given ?? `https://${account}.blob.core.windows.net`).replace(/\/$/, "");
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
      const { signal: abortSignal, during, chunks: heard } = silenceLimit({ clock, signal });
      const get = () => blobAt(key).download(0, undefined, { abortSignal });
      const answer = await callUnless("absent", what, () => during(get));
      return answer && chunks(what, heard(answer.readableStreamBody as unknown as AsyncIterable<Uint8Array>));
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
      // The signature alone lets nobody write over what is there; the condition says so where something is.
      const { url, headers } = await sign(key, "c", ttlMilliseconds);
      return { url, headers: { ...headers, "x-ms-blob-type": "BlockBlob", "if-none-match": "*" } };
    },
  };
}

/** The other one is read by a large library, which is not bundled. */
const responseFormat = StorageResponseFormat.Xml;

const options: StoragePipelineOptions = {
  retryOptions: { maxTries: 4, retryDelayInMs: 200, maxRetryDelayInMs: 5_000 },
};

/** How Azure's client fails. */
function azureErrors(account: string): CloudErrors {
  return {
    refusalOf: (error) =>
      error instanceof RestError && error.statusCode !== undefined
        ? { status: error.statusCode, word: error.code }
        : { cause: error },
    hasNoCredentials: ({ name }) => nobody.has(name),
    identityHint:
      "Give the controllers a managed identity (AKS workload identity), or the account's key in AZURE_STORAGE_KEY.",
    rightsHint: `Give the role Storage Blob Data Contributor on the storage account ${account}, or its key in AZURE_STORAGE_KEY.`,
  };
}

/** Errors of @azure/identity, which gives no token: it finds nobody, or Entra ID does not know who asks. */
const nobody = new Set([
  "AggregateAuthenticationError",
  "AuthenticationError",
  "AuthenticationRequiredError",
  "CredentialUnavailableError",
]);
