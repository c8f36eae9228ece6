import type { CheckpointRef } from "../checkpoint-id.ts";
import type { Removal } from "../checkpoint-store.ts";
import type { Step } from "../sessions.ts";
import { collectContent, settleContent } from "./content.ts";
import type { Layout } from "./layout.ts";
import { doom, removeCheckpoint, removeRest } from "./remove.ts";

/** How a sweep takes away what it has found. Each answers how many bytes that frees; 0 also for what is in use. */
export interface Removing {
  /** An old entry of `staging`; `undefined`: it was gone. */
  rest(layout: Layout, path: string, isDoomed: boolean): Promise<number | undefined>;
  checkpoint(layout: Layout, ref: CheckpointRef): Promise<Removal>;
  /** Content under its own name. */
  content(layout: Layout, digest: string): Promise<number>;
  /** Content that a crash left in `staging`. */
  stagedContent(layout: Layout, path: string, digest: string): Promise<number>;
}

export function removing(step: Step): Removing {
  return {
    async rest(layout, path, isDoomed) {
      // By a rename first: a publication that goes on after all then fails as a whole.
      const doomed = isDoomed ? path : await doom(layout, path);
      return doomed === undefined ? undefined : removeRest(doomed);
    },
    checkpoint: (layout, ref) => removeCheckpoint(layout, ref, step),
    content: (layout, digest) => collectContent(layout, digest, step),
    stagedContent: settleContent,
  };
}
