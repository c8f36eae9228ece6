import type { UserAssignedIdentity } from "@pulumi/azure-native/managedidentity/index.js";
import type { CustomResource, CustomResourceOptions, Input } from "@pulumi/pulumi";
import { interpolate } from "@pulumi/pulumi";
import { controllerName, systemNamespace } from "../../src/api/system-names.ts";
import { cloudPackage } from "../cloud-package.ts";
import type { RametStore } from "../ramet-store.ts";
import { whenStored } from "./when-stored.ts";

/** What Azure is asked for. The driver and its controller are AKS' own. */
export interface AksStackArgs {
  /** A storage account for checkpoints, and the right to it for the controllers' service account. @default none */
  store?: {
    /** The name of the storage account: 3 to 24 small letters and digits. */
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
/** The built-in role "Storage Blob Data Contributor". On the account: to lend keys to sign with is a right of it, and not of containers. */
const blobContributor = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";

/** The account and its container, which stay when the stack goes because their data would go with them, and an identity that may use them. */
export async function aksResources(
  name: string,
  { store }: AksStackArgs,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  if (store === undefined) return {};
  const storage = await cloudPackage("@pulumi/azure-native", () => import("@pulumi/azure-native/storage/index.js"));
  const lasting = { ...options, retainOnDelete: true };
  const { account: accountName, resourceGroup: resourceGroupName, location, tags = {} } = store;
  const kept = new storage.StorageAccount(
    `${name}-store`,
    {
      ...{ accountName, resourceGroupName, location, tags, kind: "StorageV2", sku: { name: "Standard_ZRS" } },
      ...{ allowBlobPublicAccess: false, allowSharedKeyAccess: false, minimumTlsVersion: "TLS1_2" },
    },
    lasting,
  );
  const container = new storage.BlobContainer(
    `${name}-store`,
    { accountName: kept.name, resourceGroupName, containerName },
    lasting,
  );
  const identity = await storeIdentity(name, { store, scope: kept.id }, options);
  return { "StorageAccount/store": kept, "BlobContainer/store": container, ...identity };
}

async function storeIdentity(
  name: string,
  { store, scope }: { store: NonNullable<AksStackArgs["store"]>; scope: Input<string> },
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  const load = () => import("@pulumi/azure-native/managedidentity/index.js");
  const managedidentity = await cloudPackage("@pulumi/azure-native", load);
  const authorization = await cloudPackage(
    "@pulumi/azure-native",
    () => import("@pulumi/azure-native/authorization/index.js"),
  );
  const { resourceGroup: resourceGroupName, location, issuerUrl, subscriptionId, tags = {} } = store;
  const identity = new managedidentity.UserAssignedIdentity(
    `${name}-store`,
    { resourceGroupName, location, tags },
    options,
  );
  const credential = new managedidentity.FederatedIdentityCredential(
    `${name}-store`,
    {
      ...{ resourceGroupName, resourceName: identity.name, issuer: issuerUrl },
      subject: `system:serviceaccount:${systemNamespace}:${controllerName}`,
      audiences: ["api://AzureADTokenExchange"],
    },
    options,
  );
  const right = new authorization.RoleAssignment(
    `${name}-store`,
    {
      ...{ scope, principalId: identity.principalId, principalType: "ServicePrincipal" },
      roleDefinitionId: interpolate`/subscriptions/${subscriptionId}/providers/Microsoft.Authorization/roleDefinitions/${blobContributor}`,
    },
    options,
  );
  return { [identityName]: identity, "FederatedIdentityCredential/store": credential, "RoleAssignment/store": right };
}

const identityName = "UserAssignedIdentity/store";

/** The store as the controllers are told of it; who they are is known when all is there that they need. */
export function aksStore({ store }: AksStackArgs, made: Promise<Record<string, CustomResource>>): RametStore {
  if (store === undefined) return {};
  const clientId = whenStored(made, (resources) => (resources[identityName] as UserAssignedIdentity).clientId);
  return { azure: { account: store.account, container: containerName, clientId } };
}
