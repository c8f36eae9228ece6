import { createHash } from "node:crypto";
import type { Checkpoint, CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";

/** The Checkpoint that holds a sandbox during a pause. Each pause of a sandbox has its own. */
export function pauseCheckpoint(sandbox: Sandbox, persistentContents: readonly string[]): CheckpointManifest {
  const { name, namespace, uid } = sandbox.metadata;
  const contents = persistentContents.filter((content) => content === "memory" || content === "filesystem");
  const digest = createHash("sha256")
    .update(`${uid}/${sandbox.metadata.generation ?? 0}`)
    .digest("hex");
  return {
    apiVersion,
    kind: "Checkpoint",
    metadata: {
      name: `${name}-pause-${digest.slice(0, 8)}`,
      namespace,
      labels: { [labels.purpose]: "pause", [labels.sandboxName]: name },
      ownerReferences: [{ apiVersion, kind: "Sandbox", name, uid, controller: true }],
    },
    spec: {
      sandboxName: name,
      keepRunning: false,
      persistentContents: contents.includes("filesystem") && !contents.includes("memory") ? ["filesystem"] : both,
    },
  };
}

/** The UID of the Pod that a checkpoint started with, if it has started. */
export function capturedPodUid({ metadata }: Checkpoint): string | undefined {
  return metadata.annotations?.[annotations.podUid];
}

export function isPauseCheckpoint({ metadata }: Checkpoint): boolean {
  return metadata.labels?.[labels.purpose] === "pause";
}

/** Terminating counts as finished: a running capture completes before that phase. */
export function isUnfinished({ status }: Checkpoint): boolean {
  return !["Succeeded", "Failed", "Terminating"].includes(status?.phase ?? "Pending");
}

const both: ("memory" | "filesystem")[] = ["memory", "filesystem"];

/**
 * The id of a Checkpoint's data: its name, truncated if necessary, and a part of its UID's digest. Deterministic, so a repeat
 * after a crash finds the data of the first attempt. A later Checkpoint of the same name has another id.
 */
export function checkpointIdOf({ name, uid }: { name: string; uid: string }): string {
  const readable = name
    .replace(/[^a-z0-9-]/g, "-")
    .slice(0, 50)
    .replace(/^-+|-+$/g, "");
  const digest = createHash("sha256").update(uid).digest("hex").slice(0, 12);
  return readable === "" ? `c-${digest}` : `${readable}-${digest}`;
}
