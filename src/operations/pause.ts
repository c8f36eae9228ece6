import type { Sandbox } from "../api/kinds/sandbox.ts";
import { annotations } from "../api/names/labels.ts";
import type { Change } from "./objects.ts";

/** The change that resumes a paused sandbox. After a pause without its memory, the next one keeps the memory again. */
export function resumeChange({ metadata }: Sandbox, timers: object = {}): Change {
  const before = metadata.annotations?.[annotations.contentsAfterPause];
  return {
    ...(before !== undefined && { metadata: { annotations: { [annotations.contentsAfterPause]: null } } }),
    spec: {
      paused: false,
      ...(before !== undefined && { persistentContents: contentsFrom(before) }),
      ...timers,
    },
  };
}

/** Users can write the annotation. Null removes the field: the default applies. */
function contentsFrom(text: string): string[] | null {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value.filter((word) => typeof word === "string") : null;
  } catch {
    return null;
  }
}

/** The change of a Sandbox that lets its next pause keep its files only. */
interface FilesOnly {
  metadata: { annotations: Record<string, string> };
  spec: { persistentContents: string[] };
}

/**
 * Lets one pause keep the files only. The annotation remembers what pauses keep otherwise, and the client API restores that when it
 * resumes the sandbox.
 * @returns undefined if the sandbox keeps no memory anyway
 */
export function filesOnlyPause({ metadata, spec }: Pick<Sandbox, "metadata" | "spec">): FilesOnly | undefined {
  const kept = spec.persistentContents;
  if (kept !== undefined && !kept.includes("memory")) return undefined;
  const before = metadata.annotations?.[annotations.contentsAfterPause] ?? JSON.stringify(kept ?? null);
  return {
    metadata: { annotations: { [annotations.contentsAfterPause]: before } },
    spec: { persistentContents: ["filesystem"] },
  };
}
