import { annotations } from "../names/labels.ts";
import type { Sandbox } from "./sandbox.ts";

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
