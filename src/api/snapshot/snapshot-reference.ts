import { RametError } from "../../base/errors.ts";

/** A named snapshot, or one of its versions, as a user writes it: `python`, `python@7`, `python@sha256:…`. */
export interface SnapshotReference {
  name: string;
  /** Absent, like `digest`: whichever version is the current one. */
  version?: number;
  digest?: string;
}

/**
 * Reads a reference.
 * @throws RametError `InvalidArgument` for a text that can be none
 */
export function parseSnapshotReference(text: string): SnapshotReference {
  const at = text.indexOf("@");
  const name = at < 0 ? text : text.slice(0, at);
  const pin = at < 0 ? undefined : text.slice(at + 1);
  if (!namePattern.test(name)) throw unreadable(text);
  if (pin === undefined) return { name };
  if (digestPattern.test(pin)) return { name, digest: pin };
  if (versionPattern.test(pin) && Number(pin) <= mostVersions) return { name, version: Number(pin) };
  throw unreadable(text);
}

/** The reverse of {@link parseSnapshotReference}. */
export function printSnapshotReference({ name, version, digest }: SnapshotReference): string {
  if (version !== undefined) return `${name}@${version}`;
  return digest === undefined ? name : `${name}@${digest}`;
}

/** Whether the text says which version it means: a checkpoint id never has an `@`. */
export function isPinnedReference(text: string): boolean {
  return text.includes("@");
}

const namePattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const digestPattern = /^sha256:[0-9a-f]{64}$/;
const versionPattern = /^[1-9][0-9]*$/;
const mostVersions = 2 ** 31 - 1;

function unreadable(text: string): RametError {
  return new RametError("InvalidArgument", `${JSON.stringify(text)} names no snapshot`, {
    hint: "Write a name, a name and a version, or a name and a digest: python, python@7, python@sha256:<64 hex digits>",
  });
}
