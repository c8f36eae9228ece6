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

/** The oldest service version that supports large PUTs and whose signatures all current clouds and emulators accept. */
export const serviceVersion = "2022-11-02";

/** The permission of a signed request: `r` reads a blob, `c` creates a blob that does not exist. */
export type AzurePermission = "r" | "c";

/** The identity of the controllers in a storage account, and how it signs requests. */
export interface AzureAccess {
  credential: StorageSharedKeyCredential | TokenCredential;
  /** Creates a shared access signature (SAS) for one blob. @returns the query of its URL */
  sign(blobName: string, permission: AzurePermission, ttlMilliseconds: number): Promise<string>;
}

export interface AzureContainer {
  account: string;
  container: string;
  /** The account's URL. */
  endpoint: string;
}

/** Uses the account's key if the environment contains it. Otherwise uses Azure's default credentials. */
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

/** Finds the credential on first use, so that the first call fails if there is none. */
function tokenCredential(): TokenCredential {
  let found: TokenCredential | undefined;
  return {
    getToken: async (scopes, options) => {
      found ??= findCredential();
      return found.getToken(scopes, options);
    },
  };
}

/** A Pod with a workload identity must not fall back to the node's identity. */
function findCredential(): TokenCredential {
  // Uses the authority from the environment without validating it at another server.
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
/** A key that is valid from now on is not yet valid for a server whose clock is behind. */
const skewMilliseconds = 900_000;

/** User delegation keys, which Azure issues for a limited time. A key is reused for signatures that expire before it does. */
function delegationKeys(service: BlobServiceClient, clock: Clock): (until: Date) => Promise<UserDelegationKey> {
  let cached: { key: Promise<UserDelegationKey>; expiresOn: Date } | undefined;
  return async (until) => {
    if (cached === undefined || cached.expiresOn < until) {
      const now = clock.now().getTime();
      const expiresOn = new Date(Math.max(now + dayMilliseconds, until.getTime()));
      const key = service.getUserDelegationKey(new Date(now - skewMilliseconds), expiresOn);
      const requested = { key, expiresOn };
      cached = requested;
      // A failed request is repeated by the next call.
      key.catch(() => {
        if (cached === requested) cached = undefined;
      });
    }
    return cached.key;
  };
}
