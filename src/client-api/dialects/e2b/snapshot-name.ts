import { defaultTag, tagPattern } from "../../../api/snapshot/snapshot-tags.ts";
import { objectNameOf } from "../../../api/names/client-names.ts";
import { RametError } from "../../../base/errors.ts";

/** Reads `[namespace/]name[:tag]`. @throws RametError `InvalidArgument` */
export function snapshotName(text: string, namespace: string): { name: string; tag: string } {
  const [, team = namespace, name = "", tag = defaultTag] =
    /^(?:([^/]+)\/)?([^/:]+)(?::([^/:]+))?$/.exec(text.toLowerCase()) ?? [];
  if (team !== namespace) {
    throw new RametError("InvalidArgument", `The namespace of the name ${JSON.stringify(text)} is not ${namespace}`);
  }
  const object = objectNameOf(name);
  // Where both meet, two names would be one.
  const isAmbiguous = /-_|_-|__/.test(name);
  if (/^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$/.test(object) && !isAmbiguous && tagPattern.test(tag))
    return { name: object, tag };
  throw new RametError("InvalidArgument", `${JSON.stringify(text)} is not a name of a snapshot`, {
    hint: "Use at most 40 lower-case letters, digits, - and single _, and optionally :tag",
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
