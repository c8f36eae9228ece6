import { RametError } from "../base/errors.ts";

/**
 * Checks the name of a sandbox before anything is sent.
 *
 * @param field the option or argument, such as `--name`
 * @throws RametError `InvalidArgument`
 */
export function checkLabel(name: string, field: string): void {
  if (/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) return;
  throw new RametError("InvalidArgument", `Invalid ${field}, not a DNS label: ${JSON.stringify(name)}`, {
    hint: "Use at most 63 lowercase letters, digits and '-', with a letter or digit at both ends",
  });
}

/** Checks the name of another object: a DNS subdomain. @throws RametError `InvalidArgument` */
export function checkName(name: string, field: string): void {
  if (name.length <= 253 && name.split(".").every((part) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(part))) return;
  throw new RametError("InvalidArgument", `Invalid ${field}, not an object name: ${JSON.stringify(name)}`, {
    hint: "Use lowercase letters, digits, '-' and '.', with a letter or digit at both ends",
  });
}

/** A `generateName`: the API server adds five characters, and a label has at most 63. */
export function generateName(base: string): string {
  return `${base.slice(0, 57).replaceAll(".", "-").replace(/-+$/, "")}-`;
}
