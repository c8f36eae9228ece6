import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ObjectsWriteGrant } from "../../api/cell/grant.ts";
import { systemClock } from "../../base/clock.ts";
import { checkGrant, invalidGrant } from "../grant-check.ts";
import type { OpenForWriteOptions, Step, WriteSession } from "../sessions.ts";
import { inCell } from "./signed-http.ts";
import { isPublicationUrl } from "./layout.ts";
import { findPublished, publish, requireFits } from "./publish.ts";

/** Implements `openForWrite` for a bucket. */
export async function openObjectsForWrite(
  grant: ObjectsWriteGrant,
  options: OpenForWriteOptions,
): Promise<WriteSession> {
  const { clock = systemClock } = options;
  const step: Step = async (name) => options.onStep?.(name);
  checkGrant(grant, "write", clock);
  if (!isPublicationUrl(grant.publish.url, grant)) throw invalidGrant(grant, "it is signed for another checkpoint");
  requireFits(grant, "the checkpoint", options.expectedBytes ?? 0);
  return inCell(`opening checkpoint ${grant.checkpointId} for writing`, grant, async () => {
    const published = await findPublished(grant, { clock, signal: options.signal });
    const stagingPath = await mkdtemp(join(options.scratchPath ?? tmpdir(), "checkpoint-"));
    await step("staged");
    return {
      stagingPath,
      published,
      publish: async (draft, signal) => {
        checkGrant(grant, "write", clock);
        const what = `publishing checkpoint ${grant.checkpointId}`;
        return inCell(what, grant, () => publish({ grant, stagingPath, clock, step, signal }, draft));
      },
      abandon: () =>
        inCell(`abandoning checkpoint ${grant.checkpointId}`, grant, () =>
          rm(stagingPath, { recursive: true, force: true }),
        ),
    };
  });
}
