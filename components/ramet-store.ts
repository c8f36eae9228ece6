import { type Input, output, type Output } from "@pulumi/pulumi";
import { formatStoreAddress, type StoreLocation } from "../src/api/store/store-address.ts";
import { RametError } from "../src/base/errors.ts";
import type { MountedStore } from "../src/install/install-options.ts";
import { accessFields, type RemoteStore } from "../src/install/remote-store.ts";
import { validatedField, runError, withRunError } from "./run-error.ts";

/** Where checkpoints are kept: in one of these. On a cluster sandboxes can be checkpointed with a bucket alone. */
export interface RametStore {
  /** A bucket of S3, or of a store that speaks its protocol. */
  s3?: S3Store;
  /** A bucket of Google Cloud Storage. */
  gcs?: GcsStore;
  /** A container of Azure Blob. */
  azure?: AzureStore;
  /** A folder, which the controllers and on one machine all cells have. */
  directory?: Input<string>;
  /** To install: the PersistentVolumeClaim of the namespace `ramet-system` that is mounted at the directory. */
  claim?: Input<string>;
}

/** A place in S3, and how the controllers get at it. */
export interface S3Store {
  /** The bucket's name. It must exist. */
  bucket: Input<string>;
  /** Below which keys checkpoints are kept, such as `ramet/production`. @default the whole bucket */
  prefix?: Input<string>;
  /** The bucket's region. @default what the controllers have in their environment; `us-east-1` with an `endpoint` */
  region?: Input<string>;
  /** Where the store is that is not Amazon's, such as `https://minio.example.com:9000`. @default Amazon's */
  endpoint?: Input<string>;
  /**
   * An IAM role for the controllers' service account (IRSA). It must allow s3:GetObject, s3:PutObject and s3:DeleteObject on what is
   * below the prefix, and s3:ListBucket on the bucket. @default none, as EKS Pod Identity needs none
   */
  roleArn?: Input<string>;
  /** A Secret of the namespace `ramet-system` with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. @default none */
  secret?: Input<string>;
}

/** A place in Google Cloud Storage, and how the controllers get at it. */
export interface GcsStore {
  /** The bucket's name. It must exist. */
  bucket: Input<string>;
  /** Below which keys checkpoints are kept, such as `ramet/production`. @default the whole bucket */
  prefix?: Input<string>;
  /** Where the store is that is not Google's, as an emulator is. @default Google's */
  endpoint?: Input<string>;
  /**
   * The email of a Google service account for which the controllers' Kubernetes service account stands on GKE. It must have
   * roles/storage.objectUser on the bucket, and roles/iam.serviceAccountTokenCreator on itself, because it signs what cells are given.
   * @default what the controllers find in their environment
   */
  serviceAccount?: Input<string>;
}

/** A place in Azure Blob, and how the controllers get at it. */
export interface AzureStore {
  /** The name of the storage account. */
  account: Input<string>;
  /** The container's name. It must exist. */
  container: Input<string>;
  /** Below which names checkpoints are kept, such as `ramet/production`. @default the whole container */
  prefix?: Input<string>;
  /** The account's, such as `https://agents.blob.core.usgovcloudapi.net`. @default `https://<account>.blob.core.windows.net` */
  endpoint?: Input<string>;
  /**
   * The client id of a managed identity that the controllers' service account may take (AKS workload identity). It needs the role
   * Storage Blob Data Contributor on the account. @default none
   */
  clientId?: Input<string>;
  /** The id of the identity's tenant. @default the cluster's */
  tenantId?: Input<string>;
  /** A Secret of the namespace `ramet-system` with AZURE_STORAGE_KEY, the account's key. @default none */
  secret?: Input<string>;
}

/** `undefined` where it is not said, or only a part of it. @throws RunError when it is said twice */
export function installedStore({
  directory,
  claim,
  ...remote
}: RametStore): MountedStore<Input<string>> | RemoteStore<Input<string>> | undefined {
  const mounted = directory ?? claim;
  if ([mounted, ...Object.values(remote)].filter((each) => each !== undefined).length > 1) throw twoNamed();
  if (remote.s3 !== undefined) {
    const { roleArn, secret, ...location } = remote.s3;
    return remoteStore(output({ driver: "s3" as const, ...location }), { roleArn, secret });
  }
  if (remote.gcs !== undefined) {
    const { serviceAccount, ...location } = remote.gcs;
    return remoteStore(output({ driver: "gcs" as const, ...location }), { serviceAccount });
  }
  if (remote.azure !== undefined) {
    const { clientId, tenantId, secret, ...location } = remote.azure;
    return remoteStore(output({ driver: "azure" as const, ...location }), { clientId, tenantId, secret });
  }
  if (directory === undefined || claim === undefined) return undefined;
  return { directory: validatedField("store.directory", directory), claim: validatedField("store.claim", claim) };
}

function remoteStore(
  location: Output<StoreLocation>,
  access: Omit<RemoteStore<Input<string>>, "address">,
): RemoteStore<Input<string>> {
  const store: RemoteStore<Input<string>> = {
    address: location.apply((known) => withRunError(() => formatStoreAddress(known))),
  };
  for (const field of accessFields) {
    const value = access[field];
    if (value !== undefined) store[field] = validatedField(`store.${field}`, value);
  }
  return store;
}

function twoNamed(): Error {
  const hint = "Leave out all members of store but one; store.directory and store.claim go together";
  return runError(new RametError("InvalidArgument", "Checkpoints are kept in one store, and two are named", { hint }));
}
