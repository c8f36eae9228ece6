import type { UserAssignedIdentity } from "@pulumi/azure-native/managedidentity/index.js";
import {
  type ComponentResourceOptions,
  type CustomResourceOptions,
  type Input,
  interpolate,
  output,
} from "@pulumi/pulumi";
import { defined } from "../../src/base/defined.ts";
import { RametError } from "../../src/base/errors.ts";
import { cloudPackage } from "../cloud-package.ts";
import type { AzureStore, RametStore } from "../ramet-store.ts";
import { runError } from "../run-error.ts";
import {
  type CloudResources,
  controllersAccount,
  StoreIdentity,
  type StoreIdentityArgs,
  whenStored,
} from "./store-identity.ts";

export interface AksStoreIdentityArgs extends StoreIdentityArgs {
  /**
   * The resource id of the storage account:
   * `/subscriptions/…/resourceGroups/…/providers/Microsoft.Storage/storageAccounts/…`.
   */
  accountId: Input<string>;
  /** The name of an existing container. */
  container: Input<string>;
  /** The name prefix for checkpoints, such as `ramet/production`. @default the whole container */
  prefix?: Input<string>;
  /** The resource group of the identity. */ resourceGroup: Input<string>;
  /** The location of the identity. */ location: Input<string>;
  /** The cluster's OpenID Connect issuer (`oidcIssuerProfile.issuerUrl`). */
  issuerUrl: Input<string>;
  /** Tags of the identity. */ tags?: Record<string, Input<string>>;
}

/** For AKS: a managed identity, usable only by Ramet's controllers, with access to an existing storage account. */
export class AksStoreIdentity extends StoreIdentity<AksStoreIdentityArgs> {
  constructor(name: string, args: AksStoreIdentityArgs, opts: ComponentResourceOptions = {}) {
    super(aksIdentity, name, args, opts);
  }
}

const aksIdentity = {
  type: "ramet:index:AksStoreIdentity",
  create: (name: string, args: AksStoreIdentityArgs, options: CustomResourceOptions) => {
    const subscriptionId = output(args.accountId).apply((id) => partsOf(id).subscriptionId);
    return aksStoreRights(name, { ...args, subscriptionId, scope: args.accountId }, options);
  },
  storeOf: ({ accountId, container, prefix }: AksStoreIdentityArgs, created: Promise<CloudResources>) => {
    const account = output(accountId).apply((id) => partsOf(id).account);
    return azureStore(defined({ account, container, prefix }), created);
  },
};

/** @throws RunError if the text is not the id of a storage account */
function partsOf(id: string): { subscriptionId: string; account: string } {
  const pattern =
    /^\/subscriptions\/([^/]+)\/resourceGroups\/[^/]+\/providers\/Microsoft\.Storage\/storageAccounts\/([^/]+)$/i;
  const [, subscriptionId, account] = pattern.exec(id) ?? [];
  if (subscriptionId !== undefined && account !== undefined) return { subscriptionId, account };
  const hint = "Get it with: az storage account show --name ACCOUNT --query id";
  throw runError(new RametError("InvalidArgument", `accountId is not the id of a storage account: ${id}`, { hint }));
}

type AksRights = Pick<AksStoreIdentityArgs, "resourceGroup" | "location" | "issuerUrl" | "tags"> & {
  subscriptionId: Input<string>;
  /** The id of the resource that the identity can access. */
  scope: Input<string>;
};

/** Creates the identity with which the controllers access a storage account. */
export async function aksStoreRights(
  name: string,
  { resourceGroup: resourceGroupName, location, issuerUrl: issuer, subscriptionId, scope, tags = {} }: AksRights,
  options: CustomResourceOptions,
): Promise<CloudResources> {
  const load = () => import("@pulumi/azure-native/managedidentity/index.js");
  const managedidentity = await cloudPackage("@pulumi/azure-native", load);
  const authorization = await cloudPackage(
    "@pulumi/azure-native",
    () => import("@pulumi/azure-native/authorization/index.js"),
  );
  const identity = new managedidentity.UserAssignedIdentity(name, { resourceGroupName, location, tags }, options);
  const { namespace, serviceAccount } = controllersAccount;
  const credential = new managedidentity.FederatedIdentityCredential(
    name,
    {
      resourceGroupName,
      resourceName: identity.name,
      issuer,
      subject: `system:serviceaccount:${namespace}:${serviceAccount}`,
      audiences: ["api://AzureADTokenExchange"],
    },
    options,
  );
  const right = new authorization.RoleAssignment(
    name,
    {
      scope,
      principalId: identity.principalId,
      principalType: "ServicePrincipal",
      roleDefinitionId: interpolate`/subscriptions/${subscriptionId}/providers/Microsoft.Authorization/roleDefinitions/${blobContributor}`,
    },
    options,
  );
  return { [identityName]: identity, "FederatedIdentityCredential/store": credential, "RoleAssignment/store": right };
}

/**
 * The built-in role "Storage Blob Data Contributor". It is assigned on the account, because user delegation keys belong
 * to the account, not to a container.
 */
const blobContributor = "ba92f5b4-2d11-453d-a403-e96b0029c9fe";
const identityName = "UserAssignedIdentity/store";

/** The store for the argument `store` of a `RametRuntime`. */
export function azureStore(
  place: Pick<AzureStore, "account" | "container" | "prefix">,
  made: Promise<CloudResources>,
): RametStore {
  const clientId = whenStored(made, (resources) => (resources[identityName] as UserAssignedIdentity).clientId);
  return { azure: { ...place, clientId } };
}
