import { defaultTag, tagPattern } from "../../api/snapshot/snapshot-reference.ts";
import { parseClientName } from "../../api/names/client-names.ts";
import { RametError } from "../../base/errors.ts";

/** Reads `[namespace/]name[:tag]`. @throws RametError `InvalidArgument` */
export function snapshotName(text: string, namespace: string): { name: string; tag: string } {
  const { name, tag = defaultTag, pin } = parseClientName(text, namespace);
  if (name.includes("/"))
    throw new RametError("InvalidArgument", `The namespace of the name ${JSON.stringify(text)} is not ${namespace}`);
  // Where both meet, two names would be one.
  const isAmbiguous = /-_|_-|__/.test(text);
  const isValid = /^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/.test(name) && pin === undefined && tagPattern.test(tag);
  if (isValid && !isAmbiguous) return { name, tag };
  throw new RametError("InvalidArgument", `${JSON.stringify(text)} is not a name of a snapshot`, {
    hint: "Use at most 40 letters, digits, - and single _, and optionally :tag",
  });
}

/** Reads the name of a snapshot that should exist. @throws RametError `NotFound` for text that cannot name one here */
export function existingName(text: string, namespace: string): { name: string; tag: string } {
  try {
    return snapshotName(text, namespace);
  } catch (cause) {
    throw new RametError("NotFound", `The template ${JSON.stringify(text.slice(0, 80))} does not exist`, { cause });
  }
}
