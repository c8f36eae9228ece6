import { annotations } from "../api/names/labels.ts";
import type { Sandbox } from "../api/kinds/sandbox.ts";
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
