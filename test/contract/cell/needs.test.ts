import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { Cells, namespace, type PublishedCheckpoint } from "../../setup/cells.ts";

const container = { command: ["sleep", "1000"] };
let cells: Cells;
let otherBuild: string;

beforeAll(async () => {
  cells = await Cells.open();
  otherBuild = join(cells.rig.directory, "runsc");
  const script = `#!/bin/sh\n[ "$1" = --version ] && echo "runsc version of-later" && exit\nexec ${cells.rig.tools.runsc} "$@"\n`;
  await writeFile(otherBuild, script, { mode: 0o755 });
});
afterAll(() => cells.close());

async function captured(checkpointId: string, contents: Contents): Promise<PublishedCheckpoint> {
  const source = await cells.boot({ name: "source", container });
  const { manifestDigest } = await cells.checkpoint(source, checkpointId, { contents });
  return { checkpointId, manifestDigest, contents };
}

async function restoredInOtherBuild(checkpoint: PublishedCheckpoint): Promise<RunningCell> {
  const environment = { RAMET_RUNSC: otherBuild };
  const cell = await cells.rig.startCell({ name: "clone", start: "wait", container, environment });
  const exited = once(cell.process, "exit");
  try {
    await cells.restore(cell, checkpoint);
  } catch (error) {
    await exited;
    throw error;
  }
  return cell;
}

it("rejects memory of another gVisor build before gVisor reads it, and names both builds", async () => {
  const checkpoint = await captured("memory-1", ["memory", "filesystem"]);
  await expect(restoredInOtherBuild(checkpoint)).rejects.toMatchObject({
    code: "NeedNotMet",
    message: expect.stringMatching(
      /^restoring checkpoint memory-1 failed: it needs gVisor \S+, but the cell has of-later$/,
    ) as string,
    hint: expect.stringContaining("capture it again") as string,
  });
  expect(await cells.store.has({ namespace, ...checkpoint })).toBe(true);
});

it("restores files with any build, and reports its own", async () => {
  const cell = await restoredInOtherBuild(await captured("files-1", ["filesystem"]));
  expect(await cells.client.state(cell.address)).toMatchObject({
    phase: "running",
    ready: true,
    engine: { version: "of-later" },
  });
});
