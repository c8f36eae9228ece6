import * as z from "zod";
import { Digest } from "./grant.ts";

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
