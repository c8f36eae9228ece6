import { InvalidArgumentError } from "commander";
import { annotations } from "../api/names/labels.ts";
import type { VolumesOnRestore } from "../api/names/volumes-on-restore.ts";
import { parseDuration } from "../base/duration.ts";
import { RametError } from "../base/errors.ts";

export interface WaitFlags {
  wait: boolean;
  /** Milliseconds; `Infinity` waits forever. */
  timeout: number;
}

export interface VolumesFlag {
  volumes?: VolumesOnRestore;
}

export function volumesAnnotation({ volumes }: VolumesFlag): Record<string, string> {
  return volumes === undefined ? {} : { [annotations.volumesOnRestore]: volumes };
}

/** A number without a unit is in seconds. `0` means no limit: `Infinity`. */
export function timeoutMilliseconds(text: string): number {
  const duration = /^\d+(\.\d+)?$/.test(text) ? `${text}s` : text;
  const milliseconds = parsed(() => parseDuration(duration, "--timeout"));
  if (milliseconds < 0) throw new InvalidArgumentError("it must not be negative");
  return milliseconds === 0 ? Infinity : milliseconds;
}

export function collectVariable(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("write it as NAME=VALUE");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

export function truth(text: string): boolean {
  if (text === "true") return true;
  if (text === "false") return false;
  throw new InvalidArgumentError("it must be true or false");
}

export function commaList(text: string): string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

export function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError("it must be a whole number, 0 or more");
  return Number(text);
}

export function positiveNumber(text: string): number {
  if (!/^0*[1-9]\d*$/.test(text)) throw new InvalidArgumentError("it must be a whole number, 1 or more");
  return Number(text);
}

/** 0 means any free port. */
export function portNumber(text: string): number {
  const port = wholeNumber(text);
  if (port > 65_535) throw new InvalidArgumentError("it must be a port from 0 to 65535");
  return port;
}

/** Commander reports its own error class together with the option. */
export function parsed<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error));
  }
}

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

/** The metadata of an object with this name, or with a generated one. */
export function naming(name: string | undefined, base: string): { name: string } | { generateName: string } {
  return name === undefined ? { generateName: generateName(base) } : { name };
}

/** A `generateName`: the API server adds five characters, and a label has at most 63. */
export function generateName(base: string): string {
  return `${base.slice(0, 57).replaceAll(".", "-").replace(/-+$/, "")}-`;
}
