import * as z from "zod";
import { RametError } from "../base/errors.ts";

/** A Kubernetes namespace: a DNS label. A directory store uses it as a path component, so it must not leave the root. */
export const NamespaceName = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be a DNS label");

/**
 * A checkpoint's id: lower-case letters, digits, `-` and `.`, with a letter or digit at both ends. At most 200 characters, so
 * that it fits into a file name together with the prefixes and suffixes of the drivers.
 */
export const CheckpointId = z
  .string()
  .max(200)
  .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, "must consist of lower-case letters, digits, '-' and '.'");

/** Identifies one checkpoint in a store. Ids are unique only within a namespace. */
export interface CheckpointRef {
  namespace: string;
  checkpointId: string;
}

/** Validates both names. @throws RametError `InvalidArgument` */
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
    `${field} ${JSON.stringify(value)} is not valid: ${result.error.issues[0]?.message ?? "unknown"}`,
  );
}
