import * as z from "zod";

const dateTime = z.iso.datetime({ offset: true });

/** RFC 3339 with any offset, as Kubernetes writes and reads it; like its server, of either case. */
export const Time = z
  .string()
  .refine((text) => dateTime.safeParse(text.toUpperCase()).success, "must be a time like 2030-01-01T00:00:00Z")
  .meta({ crd: { type: "string", format: "date-time" } });

export const OwnerReference = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  name: z.string(),
  uid: z.string(),
  controller: z.boolean().optional(),
  blockOwnerDeletion: z.boolean().optional(),
});
export type OwnerReference = z.infer<typeof OwnerReference>;

const written = {
  generateName: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  finalizers: z.array(z.string()).optional(),
  ownerReferences: z.array(OwnerReference).optional(),
};

/** The metadata of an object of a namespace as the API server answers it: what it always sets is there. */
export const ObjectMeta = z.looseObject({
  ...written,
  name: z.string(),
  namespace: z.string(),
  uid: z.string(),
  resourceVersion: z.string(),
  creationTimestamp: z.string(),
  /** Counts changes of the spec. Absent on kinds without a status subresource (Pods). */
  generation: z.number().int().optional(),
  deletionTimestamp: z.string().optional(),
  deletionGracePeriodSeconds: z.number().int().optional(),
});
export type ObjectMeta = z.infer<typeof ObjectMeta>;

/** The metadata of an object that somebody is about to write: the server has not filled anything in. */
export const ManifestMeta = z.looseObject({
  ...written,
  name: z.string().optional(),
  namespace: z.string().optional(),
});
export type ManifestMeta = z.infer<typeof ManifestMeta>;

/** metav1.Condition, with the limits that Kubernetes' own types carry. */
export const Condition = z.object({
  type: z.string().max(316),
  status: z.enum(["True", "False", "Unknown"]),
  reason: z.string().min(1).max(1024),
  message: z.string().max(32768),
  lastTransitionTime: Time,
  observedGeneration: z.int().min(0).optional(),
});
export type Condition = z.infer<typeof Condition>;

export const Conditions = z
  .array(Condition)
  .meta({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] });

/**
 * The words that we know, and any other: another controller (ACS, a newer Ramet) may write a phase that we have never
 * heard of, and that must not make the object unreadable.
 */
export type Open<T extends string> = T | (string & {});

/** A string in the schema, {@link Open} in the type. */
export function openString<T extends string>(_known: readonly T[]): z.ZodType<Open<T>, Open<T>> {
  return z.string();
}
