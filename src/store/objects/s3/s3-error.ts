import { S3ServiceException } from "@aws-sdk/client-s3";
import type { CloudErrors } from "../client-calls.ts";

/** How S3's client fails. */
export function s3Errors(store: string): CloudErrors {
  return {
    refusalOf: (error) =>
      error instanceof S3ServiceException
        ? { status: error.$metadata.httpStatusCode, word: error.name }
        : { cause: error },
    hasNoCredentials: ({ name, message }) =>
      name === "CredentialsProviderError" || message.startsWith("Could not load credentials"),
    identityHint:
      "Give the controllers a role (IRSA or EKS Pod Identity), or keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    rightsHint: `Allow s3:GetObject, s3:PutObject and s3:DeleteObject on ${store}/*, and s3:ListBucket on its bucket.`,
  };
}
