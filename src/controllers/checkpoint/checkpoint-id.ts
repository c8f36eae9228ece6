import { createHash } from "node:crypto";

/**
 * The id of a Checkpoint's data: its name, as far as it fits, and a part of its UID's digest. Deterministic, so that a
 * repeat after a crash finds what the first try did; never the same for a later Checkpoint of the name.
 */
export function checkpointIdOf({ name, uid }: { name: string; uid: string }): string {
  const readable = name
    .replace(/[^a-z0-9-]/g, "-")
    .slice(0, 50)
    .replace(/^-+|-+$/g, "");
  const digest = createHash("sha256").update(uid).digest("hex").slice(0, 12);
  return readable === "" ? `c-${digest}` : `${readable}-${digest}`;
}
