/**
 * What stands for a value that a preview does not know yet. The process for dynamic resources passes it on as it comes over
 * the wire (`unknownValue` in `@pulumi/pulumi/runtime/rpc`).
 */
export const unknownValue = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/** Whether the value, or anything in it, is not known yet. */
export function hasUnknown(value: unknown): boolean {
  if (value === unknownValue) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}
