import type { StoreLocation } from "../api/store/store-address.ts";

/** A store in a bucket, and the identity with which the controllers use it. */
export interface RemoteStore<Text = string> {
  /** For example `s3://bucket/prefix?region=eu-central-1`. */
  address: Text;
  /** S3: the IAM role that the controllers' service account assumes (IRSA). Not needed with EKS Pod Identity. */
  roleArn?: Text | undefined;
  /** Google Cloud Storage: the email address of the Google service account that the controllers impersonate. */
  serviceAccount?: Text | undefined;
  /** Azure: the client id of the managed identity of the controllers (AKS workload identity). */
  clientId?: Text | undefined;
  /** Azure: the tenant of that identity. @default the cluster's tenant */
  tenantId?: Text | undefined;
  /** A Secret in the namespace with environment variables for the store's client, such as `AWS_ACCESS_KEY_ID`. */
  secret?: Text | undefined;
}

/** The identity fields, with the driver of each and its annotation on the controllers' service account. */
export const identities = {
  roleArn: { driver: "s3", annotation: "eks.amazonaws.com/role-arn" },
  serviceAccount: { driver: "gcs", annotation: "iam.gke.io/gcp-service-account" },
  clientId: { driver: "azure", annotation: "azure.workload.identity/client-id" },
  tenantId: { driver: "azure", annotation: "azure.workload.identity/tenant-id" },
} as const satisfies { [Field in keyof RemoteStore]?: { driver: StoreLocation["driver"]; annotation: string } };

export const identityFields = Object.keys(identities) as (keyof typeof identities)[];

/** All fields except the address. */
export const accessFields = [...identityFields, "secret"] as const;

/** The identity annotations for the controllers' service account. */
export function identityAnnotations(store: RemoteStore<unknown>): Record<string, string> {
  const given = identityFields.filter((field) => store[field] !== undefined);
  // In a Pulumi program the value can be an output.
  return Object.fromEntries(given.map((field) => [identities[field].annotation, store[field] as string]));
}

/** The identity labels for the controllers' Pods. */
export function identityLabels(store: RemoteStore<unknown>): Record<string, string> {
  return store.clientId === undefined ? {} : { "azure.workload.identity/use": "true" };
}
