import { DefaultAzureCredential, WorkloadIdentityCredential, type TokenCredential } from "@azure/identity";
import {
  BlobSASPermissions,
  BlobServiceClient,
  generateBlobSASQueryParameters,
  SASProtocol,
  StorageSharedKeyCredential,
  type BlobSASSignatureValues,
  type StoragePipelineOptions,
  type UserDelegationKey,
} from "@azure/storage-blob";
import type { Clock } from "../../../base/clock.ts";

/** Of the service: the first that all its clouds and emulators of today know the signatures of, and that takes large blobs in one PUT. */
export const serviceVersion = "2022-11-02";

/** What a signed request may do: `r` read a blob, `c` make one where there is none. */
export type AzurePermission = "r" | "c";

/** Who the controllers are for an account, and how they sign. */
export interface AzureAccess {
  credential: StorageSharedKeyCredential | TokenCredential;
  /** A shared access signature (SAS) of one blob, as the query of its URL. */
  sign(blobName: string, permission: AzurePermission, ttlMilliseconds: number): Promise<string>;
}

export interface AzureContainer {
  account: string;
  container: string;
  /** Of the account. */
  endpoint: string;
}

/** By the account's key where the environment has it; else by a token of whom Azure's own tools would find. */
export function azureAccess(
  of: AzureContainer,
  { clock, pipeline }: { clock: Clock; pipeline: StoragePipelineOptions },
): AzureAccess {
  const key = process.env["AZURE_STORAGE_KEY"];
  if (key !== undefined) {
    const credential = new StorageSharedKeyCredential(of.account, key);
    return {
      credential,
      sign: (blobName, permission, ttlMilliseconds) => {
        const values = valuesOf(of, { blobName, permission, expiresOn: expiry(clock, ttlMilliseconds) });
        return Promise.resolve(generateBlobSASQueryParameters(values, credential).toString());
      },
    };
  }
  const credential = tokenCredential();
  const keyFor = delegationKeys(new BlobServiceClient(of.endpoint, credential, pipeline), clock);
  return {
    credential,
    sign: async (blobName, permission, ttlMilliseconds) => {
      const expiresOn = expiry(clock, ttlMilliseconds);
      const values = valuesOf(of, { blobName, permission, expiresOn });
      return generateBlobSASQueryParameters(values, await keyFor(expiresOn), of.account).toString();
    },
  };
}

/** Looked for when it is needed: where there is none, that is what the first call fails with. */
function tokenCredential(): TokenCredential {
  let found: TokenCredential | undefined;
  return {
    getToken: async (scopes, options) => {
      found ??= findCredential();
      return found.getToken(scopes, options);
    },
  };
}

/** A Pod with a workload identity is that or nobody, and not the node that it runs on. */
function findCredential(): TokenCredential {
  // The authority is the one that the environment names: nobody else is asked whether it is one.
  const authority = { disableInstanceDiscovery: true };
  const isWorkload = process.env["AZURE_FEDERATED_TOKEN_FILE"] !== undefined;
  return isWorkload ? new WorkloadIdentityCredential(authority) : new DefaultAzureCredential(authority);
}

function valuesOf(
  { container: containerName, endpoint }: AzureContainer,
  { blobName, permission, expiresOn }: { blobName: string; permission: AzurePermission; expiresOn: Date },
): BlobSASSignatureValues {
  return {
    version: serviceVersion,
    containerName,
    blobName,
    permissions: BlobSASPermissions.parse(permission),
    expiresOn,
    protocol: endpoint.startsWith("https:") ? SASProtocol.Https : SASProtocol.HttpsAndHttp,
  };
}

/** Rounded up: signatures have whole seconds. */
function expiry(clock: Clock, ttlMilliseconds: number): Date {
  return new Date(Math.ceil((clock.now().getTime() + ttlMilliseconds) / 1000) * 1000);
}

const dayMilliseconds = 86_400_000;
/** A key that begins now is not good yet for a server whose clock is behind. */
const skewMilliseconds = 900_000;

/** Keys that Azure lends for a time, to sign with in the controllers' name: one is used as long as it outlives what it signs. */
function delegationKeys(service: BlobServiceClient, clock: Clock): (until: Date) => Promise<UserDelegationKey> {
  let lent: { key: Promise<UserDelegationKey>; expiresOn: Date } | undefined;
  return async (until) => {
    if (lent === undefined || lent.expiresOn < until) {
      const now = clock.now().getTime();
      const expiresOn = new Date(Math.max(now + dayMilliseconds, until.getTime()));
      const key = service.getUserDelegationKey(new Date(now - skewMilliseconds), expiresOn);
      const asked = { key, expiresOn };
      lent = asked;
      // One that was not given is asked for again.
      key.catch(() => {
        if (lent === asked) lent = undefined;
      });
    }
    return lent.key;
  };
}
