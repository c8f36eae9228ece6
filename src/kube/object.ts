import * as z from "zod";
import { OwnerReference } from "../api/schema/metadata.ts";
import { RametError } from "../base/errors.ts";

/** The metadata that every object read from the API server has. */
export const ObjectMeta = z.looseObject({
  name: z.string(),
  namespace: z.string().optional(),
  uid: z.string(),
  /** Compared for equality only, except for the order of Events of one second. */
  resourceVersion: z.string(),
  generation: z.number().optional(),
  creationTimestamp: z.string().optional(),
  deletionTimestamp: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  finalizers: z.array(z.string()).optional(),
  ownerReferences: z.array(OwnerReference).optional(),
});
export type ObjectMeta = z.infer<typeof ObjectMeta>;

/** The fields of every object read from the API server. */
export interface KubeObject {
  apiVersion?: string | undefined;
  kind?: string | undefined;
  metadata: ObjectMeta;
}

/** An object in a request. It can have any other fields, which the API server validates. */
export type KubeManifest = ManifestParts | (ManifestParts & AnyFields);

interface ManifestParts {
  apiVersion: string;
  kind: string;
  metadata: NameParts | (NameParts & AnyFields);
}

interface NameParts {
  name?: string | undefined;
  namespace?: string | undefined;
}

type AnyFields = Record<string, unknown>;

/** The namespace and name of an object, such as its metadata. */
export interface ObjectName {
  namespace?: string | undefined;
  name: string;
}

export const AnyObject = z.looseObject({
  apiVersion: z.string().optional(),
  kind: z.string().optional(),
  metadata: ObjectMeta,
});

/** A ConfigMap or a Secret. The values of a Secret and of `binaryData` are base64. */
export const DataMap = AnyObject.extend({
  data: z
    .record(z.string(), z.string())
    .nullish()
    .transform((data) => data ?? {}),
  binaryData: z.record(z.string(), z.string()).nullish(),
});
export type DataMap = z.infer<typeof DataMap>;

/** The bytes of an entry of a Secret. @throws RametError `InvalidArgument` if it has none */
export function secretBytes({ metadata, data }: DataMap, entry: string): Buffer {
  const value = data[entry];
  if (value) return Buffer.from(value, "base64");
  throw new RametError("InvalidArgument", `The Secret ${keyOf(metadata)} has no entry ${entry}`);
}

/** Validates the fields of every object. Other fields pass through unchanged. */
export function parseObject(value: unknown): KubeObject {
  return AnyObject.parse(value);
}

/** `namespace/name`, or `name` for an object without a namespace: the key in queues and stores. */
export function keyOf(at: ObjectName): string {
  return at.namespace === undefined || at.namespace === "" ? at.name : `${at.namespace}/${at.name}`;
}

/** The reverse of `keyOf`. */
export function nameOfKey(key: string): ObjectName {
  const slash = key.indexOf("/");
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find((owner) => owner.controller === true);
}
