import { S3ServiceException } from "@aws-sdk/client-s3";
import { RametError } from "../../api/errors.ts";
import { kindOfRefusal, refusalError, sayRefusal, type Refusal } from "./refusal.ts";

/** What a controller has asked of S3, for a message. */
export interface S3Call {
  verb: string;
  key?: string;
  /** Whether it changes something: a store that allows to read alone still has what clones need. */
  writes?: boolean;
}

export function s3Refusal(error: unknown): Refusal {
  if (!(error instanceof S3ServiceException)) return { cause: error };
  return { status: error.$metadata.httpStatusCode, word: error.name };
}

/** What a call of S3's client failed with, as the error that a person can act on. What was given up comes back as it is. */
export function s3Error(store: string, { verb, key, writes = false }: S3Call, error: unknown): unknown {
  if (error instanceof RametError || (error instanceof Error && error.name === "AbortError")) return error;
  const refusal = s3Refusal(error);
  const what = `${verb} ${key === undefined ? store : `${store}/${key}`}`;
  const says = error instanceof S3ServiceException ? `: ${error.message}` : "";
  if (error instanceof Error && hasNoCredentials(error)) {
    return new RametError("StoreUnavailable", `${what} failed: there are no credentials: ${error.message}`, {
      hint: "Give the controllers a role (IRSA or EKS Pod Identity), or keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    });
  }
  if (kindOfRefusal(refusal) !== "denied") return refusalError(what, refusal);
  return new RametError(
    writes ? "StoreReadOnly" : "StoreUnavailable",
    `${what} failed: ${sayRefusal(refusal)}${says}`,
    {
      hint: `Allow s3:GetObject, s3:PutObject and s3:DeleteObject on ${store}/*, and s3:ListBucket on its bucket.`,
    },
  );
}

function hasNoCredentials({ name, message }: Error): boolean {
  return name === "CredentialsProviderError" || message.startsWith("Could not load credentials");
}
