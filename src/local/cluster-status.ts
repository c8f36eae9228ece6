import { readFileSync, renameSync, writeFileSync } from "node:fs";
import * as z from "zod";
import { isProcessRunning, ProcessIdentity } from "./process-identity.ts";

export const partStates = ["waiting", "starting", "running", "restarting", "stopping", "stopped"] as const;

export const PartStatus = z.object({
  name: z.string(),
  state: z.enum(partStates),
  process: ProcessIdentity.optional(),
  /** How often it was started again since the cluster's start. */
  restarts: z.number().int().default(0),
  /** How it ended last, or why it could not be started. */
  message: z.string().optional(),
});
export type PartStatus = z.infer<typeof PartStatus>;

/** What the supervisor says of its cluster, kept in a file in the cluster's directory. */
export const ClusterStatus = z.object({
  v: z.literal(1),
  name: z.string(),
  phase: z.enum(["starting", "up", "stopping", "down", "failed"]),
  /** What a person should read when `phase` is `failed`. */
  message: z.string().optional(),
  supervisor: ProcessIdentity,
  startedAt: z.string(),
  /** URL of the API server. */
  server: z.string().optional(),
  parts: z.array(PartStatus),
});
export type ClusterStatus = z.infer<typeof ClusterStatus>;

/** The status as it was last written; absent if there is none that can be read. */
export function readStatus(path: string): ClusterStatus | undefined {
  try {
    return ClusterStatus.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return undefined;
  }
}

export function writeStatus(path: string, status: ClusterStatus): void {
  writeFileSync(`${path}.new`, JSON.stringify(status, undefined, 2), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Whether the status is that of a supervisor that runs: else it is what a killed one left. */
export function isSupervised(status: ClusterStatus | undefined): status is ClusterStatus {
  return status !== undefined && isProcessRunning(status.supervisor);
}
