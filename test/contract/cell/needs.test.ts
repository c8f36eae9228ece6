import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Contents } from "../../../src/api/contents.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { CellRig, type RunningCell } from "../../setup/cell-rig.ts";
import { pythonRootPath } from "../../setup/python-image.ts";

const container = { command: ["sleep", "1000"] };
let rig: CellRig;
let store: ReturnType<typeof directoryStore>;
let otherBuild: string;

beforeAll(async () => {
  rig = await CellRig.open(await pythonRootPath());
  const root = join(rig.directory, "store");
  await mkdir(root);
  store = directoryStore({ root });
  otherBuild = join(rig.directory, "runsc");
  const script = `#!/bin/sh\n[ "$1" = --version ] && echo "runsc version of-later" && exit\nexec ${rig.tools.runsc} "$@"\n`;
  await writeFile(otherBuild, script, { mode: 0o755 });
});
afterAll(() => rig.close());

async function captured(checkpointId: string, contents: Contents) {
  const source = await rig.startCell({ name: "source", start: "boot", container });
  await rig.client.boot(source.address, { identity: source.identity });
  const grant = await store.grantWrite({ namespace: "test", checkpointId, ttlMilliseconds: 60_000 });
  const { manifestDigest } = await rig.client.checkpoint(source.address, { grant, contents, keepRunning: true });
  return { namespace: "test", checkpointId, manifestDigest, contents };
}

async function restoredInOtherBuild({ contents, ...ref }: Awaited<ReturnType<typeof captured>>): Promise<RunningCell> {
  const cell = await rig.startCell({
    name: "clone",
    start: "wait",
    container,
    environment: { RAMET_RUNSC: otherBuild },
  });
  const grant = await store.grantRead({ ...ref, ttlMilliseconds: 60_000 });
  const exited = once(cell.process, "exit");
  try {
    await rig.client.restore(cell.address, { identity: cell.identity, grant, contents });
  } catch (error) {
    await exited;
    throw error;
  }
  return cell;
}

test("memory that another build of gVisor saved is refused, with both builds named, before gVisor sees it", async () => {
  const checkpoint = await captured("memory-1", ["memory", "filesystem"]);
  await expect(restoredInOtherBuild(checkpoint)).rejects.toMatchObject({
    code: "NeedNotMet",
    message: expect.stringMatching(
      /^The checkpoint memory-1 .* needs gVisor \S+, and the cell has of-later$/,
    ) as string,
    hint: expect.stringContaining("take it again") as string,
  });
  expect(await store.has(checkpoint)).toBe(true);
});

test("files are restored under any build, and the cell says which it has", async () => {
  const cell = await restoredInOtherBuild(await captured("files-1", ["filesystem"]));
  expect(await rig.client.state(cell.address)).toMatchObject({
    phase: "running",
    ready: true,
    engine: { version: "of-later" },
  });
});
