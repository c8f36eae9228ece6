import { RestError } from "@azure/storage-blob";
import type { CloudErrors } from "../client-calls.ts";

/** How Azure's client fails. */
export function azureErrors(account: string): CloudErrors {
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
