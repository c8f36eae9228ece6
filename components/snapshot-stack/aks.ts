import type { CustomResourceOptions, Input } from "@pulumi/pulumi";
import { cloudPackage } from "../cloud-package.ts";
import { aksStoreRights, azureStore } from "../identity/aks-store-identity.ts";
import { type CloudResources, remainsDays } from "../identity/store-identity.ts";
import type { RametStore } from "../ramet-store.ts";

/** Azure resources of a snapshot stack. AKS manages the CSI driver and the snapshot controller. */
export interface AksStackArgs {
  /** Creates a storage account for checkpoints, with access for the controllers' service account. @default none */
  store?: {
    /** The name of the storage account: 3 to 24 lower-case letters and digits. */
    account: Input<string>;
    resourceGroup: Input<string>;
    location: Input<string>;
    subscriptionId: Input<string>;
    /** The cluster's OpenID Connect issuer (`oidcIssuerProfile.issuerUrl`). */
    issuerUrl: Input<string>;
    tags?: Record<string, Input<string>>;
  };
}

const containerName = "checkpoints";

/**
 * Creates the account, its container, and an identity with access to them. Account and container are retained when the
 * stack is destroyed, because they hold data.
 */
export async function aksResources(
  name: string,
  { aks: { store } = {} }: { aks?: AksStackArgs },
  options: CustomResourceOptions,
): Promise<CloudResources> {
  if (store === undefined) return {};
  const storage = await cloudPackage("@pulumi/azure-native", () => import("@pulumi/azure-native/storage/index.js"));
  const lasting = { ...options, retainOnDelete: true };
  const { account: accountName, resourceGroup: resourceGroupName, location, tags = {} } = store;
  const kept = new storage.StorageAccount(
    `${name}-store`,
    {
      accountName,
      resourceGroupName,
      location,
      tags,
      kind: "StorageV2",
      sku: { name: "Standard_ZRS" },
      allowBlobPublicAccess: false,
      allowSharedKeyAccess: false,
      minimumTlsVersion: "TLS1_2",
    },
    lasting,
  );
  const container = new storage.BlobContainer(
    `${name}-store`,
    { accountName: kept.name, resourceGroupName, containerName },
    lasting,
  );
  // Azure removes the blocks of uploads that do not end after a week, without a rule. Its rules have no time since a deletion.
  const softDelete = new storage.BlobServiceProperties(
    `${name}-store`,
    {
      accountName: kept.name,
      resourceGroupName,
      blobServicesName: "default",
      deleteRetentionPolicy: { enabled: true, days: remainsDays },
    },
    lasting,
  );
  const rights = await aksStoreRights(`${name}-store`, { ...store, scope: kept.id }, options);
  return {
    "StorageAccount/store": kept,
    "BlobContainer/store": container,
    "BlobServiceProperties/store": softDelete,
    ...rights,
  };
}

/** The store for the argument `store` of a `RametRuntime`. */
export function aksStore({ aks: { store } = {} }: { aks?: AksStackArgs }, made: Promise<CloudResources>): RametStore {
  return store === undefined ? {} : azureStore({ account: store.account, container: containerName }, made);
}
