import { createHash } from "node:crypto";
import { join } from "node:path";

export type Kind = "volume" | "snapshot" | "group";

const prefixes = { volume: "vol", snapshot: "snap", group: "group" } as const satisfies Record<Kind, string>;

/** The id of a volume, a snapshot or a group of snapshots. It is derived from its name, so a repeated request finds what the first one made. */
export function idOf(kind: Kind, name: string): string {
  return `${prefixes[kind]}-${createHash("sha256").update(name).digest("hex").slice(0, 40)}`;
}

/** Whether a text is an id. It is checked before an id of a caller becomes part of a path. */
export function isId(kind: Kind, text: string): boolean {
  return text.startsWith(`${prefixes[kind]}-`) && /^[a-z]+-[0-9a-f]{40}$/.test(text);
}

/** The directory of the data, below the driver's directory. @param id a valid one */
export function dataPath(directory: string, kind: Kind, id: string): string {
  return join(directory, `${kind}s`, id, "data");
}
