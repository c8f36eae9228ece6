import type { StoreLocation } from "../api/store/store-address.ts";

/** A place in an object store, which controllers and cells reach by the network, and how the controllers get at it. */
export interface RemoteStore<Text = string> {
  /** Such as `s3://bucket/prefix?region=eu-central-1`. */
  address: Text;
  /** Of S3: an IAM role that the controllers' service account takes (IRSA). EKS Pod Identity needs none here. */
  roleArn?: Text | undefined;
  /** Of Google Cloud Storage: the email of a Google service account for which the controllers' service account stands. */
  serviceAccount?: Text | undefined;
  /** Of Azure: the client id of a managed identity that the controllers' service account takes (AKS workload identity). */
  clientId?: Text | undefined;
  /** Of Azure: the identity's tenant. The cluster's, where it is not said. */
  tenantId?: Text | undefined;
  /** A Secret of the namespace whose keys are the variables that the store's client reads, such as `AWS_ACCESS_KEY_ID`. */
  secret?: Text | undefined;
}

/** The fields by which a cloud knows the controllers: of which stores each is, and the annotation of their service account. */
export const identities = {
  roleArn: { driver: "s3", annotation: "eks.amazonaws.com/role-arn" },
  serviceAccount: { driver: "gcs", annotation: "iam.gke.io/gcp-service-account" },
  clientId: { driver: "azure", annotation: "azure.workload.identity/client-id" },
  tenantId: { driver: "azure", annotation: "azure.workload.identity/tenant-id" },
} as const satisfies { [Field in keyof RemoteStore]?: { driver: StoreLocation["driver"]; annotation: string } };

export const identityFields = Object.keys(identities) as (keyof typeof identities)[];

/** All fields but the address. */
export const accessFields = [...identityFields, "secret"] as const;

/** What the controllers' service account says of them to the cloud. */
export function identityAnnotations(store: RemoteStore<unknown>): Record<string, string> {
  const given = identityFields.filter((field) => store[field] !== undefined);
  // Texts of a program that are not known yet are of its own type.
  return Object.fromEntries(given.map((field) => [identities[field].annotation, store[field] as string]));
}

/** What the controllers' Pods say of themselves to the cloud. */
export function identityLabels(store: RemoteStore<unknown>): Record<string, string> {
  return store.clientId === undefined ? {} : { "azure.workload.identity/use": "true" };
}
