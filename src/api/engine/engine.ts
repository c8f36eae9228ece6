import { createHash } from "node:crypto";
import * as z from "zod";
import { Digest } from "../schema/digest.ts";

export const EngineBuild = z.object({
  /** From `runsc --version`. */
  version: z.string().min(1),
  /** As in Go: `amd64`, `arm64`. */
  architecture: z.string().min(1),
  /** The digest of the guest's program. A sandbox's memory image refers to the program's text and does not contain it. */
  guest: Digest,
  /** The features of the node's CPU, as gVisor names them. Absent: the cell is of a version that does not report them. */
  cpuFeatures: z.array(z.string()).optional(),
});
export type EngineBuild = z.infer<typeof EngineBuild>;

/** The fields that distinguish two engines. */
export type EngineParts = Pick<EngineBuild, "version" | "architecture" | "guest">;

/**
 * The id of an engine: 12 hex digits. Cells with the same id can restore each other's memory images, if their CPUs allow it.
 * Stable across releases, because records have it.
 */
export function engineId({ version, architecture, guest }: EngineParts): string {
  return createHash("sha256")
    .update(JSON.stringify([version, architecture, guest]))
    .digest("hex")
    .slice(0, 12);
}

/** The features that a memory image needs and a CPU does not have. An unknown set of either is not compared. */
export function missingFeatures(needed: readonly string[] = [], present: readonly string[] | undefined): string[] {
  if (present === undefined) return [];
  const all = new Set(present);
  return needed.filter((feature) => !all.has(feature));
}
