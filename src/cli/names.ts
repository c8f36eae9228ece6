import { RametError } from "../base/errors.ts";

/**
 * Checks the name of a sandbox before anything is sent.
 *
 * @param field what the name is for, such as `--name`
 * @throws RametError `InvalidArgument`
 */
export function checkLabel(name: string, field: string): void {
  if (/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) return;
  throw new RametError("InvalidArgument", `${field} is no DNS label: ${JSON.stringify(name)}`, {
    hint: "Use lower-case letters, digits and '-', at most 63, with a letter or digit at both ends.",
  });
}

/** Checks the name of another object: a DNS subdomain. @throws RametError `InvalidArgument` */
export function checkName(name: string, field: string): void {
  if (name.length <= 253 && name.split(".").every((part) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(part))) return;
  throw new RametError("InvalidArgument", `${field} is no object's name: ${JSON.stringify(name)}`, {
    hint: "Use lower-case letters, digits, '-' and '.', with a letter or digit at both ends.",
  });
}

/** The beginning of a generated name: the API server adds five characters, and a label has no more than 63. */
export function generateName(base: string): string {
  return `${base.slice(0, 57).replaceAll(".", "-").replace(/-+$/, "")}-`;
}
