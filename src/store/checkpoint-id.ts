import * as z from "zod";
import { RametError } from "../base/errors.ts";

/** A Kubernetes namespace: a DNS label. It is one path component of a directory store and cannot climb out of it. */
export const NamespaceName = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be a DNS label");

/**
 * A checkpoint's id: lower-case letters, digits, `-` and `.`, beginning and ending with a letter or digit, at most 200
 * characters, so that it and what a driver adds to it fit into one file name.
 */
export const CheckpointId = z
  .string()
  .max(200)
  .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, "must be lower-case letters, digits, '-' and '.'");

/** Names one checkpoint in a store. An id means nothing without its namespace. */
export interface CheckpointRef {
  namespace: string;
  checkpointId: string;
}

/** The same reference, once both names are known to be legal; otherwise `InvalidArgument`. */
export function checkedRef(ref: CheckpointRef): CheckpointRef {
  return { namespace: checkedNamespace(ref.namespace), checkpointId: checkedId(ref.checkpointId) };
}

export function checkedNamespace(namespace: string): string {
  return checked(NamespaceName, namespace, "namespace");
}

function checkedId(checkpointId: string): string {
  return checked(CheckpointId, checkpointId, "checkpointId");
}

function checked(schema: z.ZodType<string>, value: string, field: string): string {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new RametError(
    "InvalidArgument",
    `${field} ${JSON.stringify(value)} is not legal: ${result.error.issues[0]?.message ?? "unknown"}`,
  );
}
