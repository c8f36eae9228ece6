import { type Input, type Output, output } from "@pulumi/pulumi";
import { type StoreLocation, formatStoreAddress } from "../src/api/store/store-address.ts";
import { RametError } from "../src/base/errors.ts";
import { type MountedStore, type RemoteStore, accessFields } from "../src/install/install-options.ts";
import { runError, validatedField, withRunError } from "./run-error.ts";

/** The store of checkpoints. Set exactly one of the kinds. On a cluster, checkpoints need a bucket. */
export interface RametStore {
  /** An S3 bucket, or a bucket of an S3-compatible store. */
  s3?: S3Store;
  /** A Google Cloud Storage bucket. */
  gcs?: GcsStore;
  /** An Azure Blob container. */
  azure?: AzureStore;
  /** The absolute path of a directory. On one machine, controllers and cells share it. */
  directory?: Input<string>;
  /** For an installation: the PersistentVolumeClaim in the namespace `ramet-system` that is mounted at `directory`. */
  claim?: Input<string>;
}

/** A location in S3, and how the controllers access it. */
export interface S3Store {
  /** The name of an existing bucket. */
  bucket: Input<string>;
  /** The key prefix for checkpoints, such as `ramet/production`. @default the whole bucket */
  prefix?: Input<string>;
  /** The bucket's region. @default the region in the controllers' environment; `us-east-1` with an `endpoint` */
  region?: Input<string>;
  /** The URL of an S3-compatible store, such as `https://minio.example.com:9000`. @default Amazon S3 */
  endpoint?: Input<string>;
  /**
   * Whether `endpoint` can be an http URL on another host. Memory images and signed URLs then cross the network unencrypted.
   * @default false
   */
  allowInsecure?: Input<boolean>;
  /**
   * The ARN of an IAM role for the controllers' service account (IRSA). It must allow s3:GetObject, s3:PutObject and
   * s3:DeleteObject below the prefix, and s3:ListBucket on the bucket. @default none; EKS Pod Identity does not need it
   */
  roleArn?: Input<string>;
  /** A Secret in the namespace `ramet-system` with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. @default none */
  secret?: Input<string>;
}

/** A location in Google Cloud Storage, and how the controllers access it. */
export interface GcsStore {
  /** The name of an existing bucket. */
  bucket: Input<string>;
  /** The key prefix for checkpoints, such as `ramet/production`. @default the whole bucket */
  prefix?: Input<string>;
  /** The URL of another server, such as an emulator. @default Google Cloud Storage */
  endpoint?: Input<string>;
  /**
   * Whether `endpoint` can be an http URL on another host. Memory images and signed URLs then cross the network unencrypted.
   * @default false
   */
  allowInsecure?: Input<boolean>;
  /**
   * The email of the Google service account that the controllers impersonate on GKE. It needs roles/storage.objectUser
   * on the bucket, and roles/iam.serviceAccountTokenCreator on itself, because it signs the grants for cells. @default
   * the credentials in the controllers' environment
   */
  serviceAccount?: Input<string>;
}

/** A location in Azure Blob, and how the controllers access it. */
export interface AzureStore {
  /** The name of the storage account. */
  account: Input<string>;
  /** The name of an existing container. */
  container: Input<string>;
  /** The name prefix for checkpoints, such as `ramet/production`. @default the whole container */
  prefix?: Input<string>;
  /**
   * The account's URL, such as `https://agents.blob.core.usgovcloudapi.net`.
   * @default `https://<account>.blob.core.windows.net`
   */
  endpoint?: Input<string>;
  /**
   * Whether `endpoint` can be an http URL on another host. Memory images and signed URLs then cross the network unencrypted.
   * @default false
   */
  allowInsecure?: Input<boolean>;
  /**
   * The client id of a managed identity that the controllers' service account uses (AKS workload identity). It needs
   * the role Storage Blob Data Contributor on the account. @default none
   */
  clientId?: Input<string>;
  /** The tenant id of the identity. @default the cluster's tenant */
  tenantId?: Input<string>;
  /** A Secret in the namespace `ramet-system` with AZURE_STORAGE_KEY, the account's key. @default none */
  secret?: Input<string>;
}

/** Returns the store to install with, or undefined if it is incomplete. @throws RunError if more than one is set */
export function installedStore({
  directory,
  claim,
  ...remote
}: RametStore): MountedStore<Input<string>> | RemoteStore<Input<string>> | undefined {
  const mounted = directory ?? claim;
  if ([mounted, ...Object.values(remote)].filter((each) => each !== undefined).length > 1) throw ambiguousStore();
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

function ambiguousStore(): Error {
  const hint = "Set one of s3, gcs, azure, or directory with claim";
  return runError(new RametError("InvalidArgument", "The argument store sets more than one kind of store", { hint }));
}
