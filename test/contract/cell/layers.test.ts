import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { LayerRef } from "../../../src/api/wire/grant.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells, type PublishedCheckpoint } from "../../setup/cells.ts";

/** Real cells. They share the unpacked layers as those of one node do. */
let cells: Cells;
beforeAll(async () => {
  cells = await Cells.open();
});
afterAll(() => cells.close());

const container = { command: ["sleep", "infinity"] };

function whileTest(cell: RunningCell): RunningCell {
  onTestFinished(() => {
    cell.process.kill("SIGTERM");
  });
  return cell;
}

const python = (cell: RunningCell, program: string) => cells.python(cell, program);

async function captureLayer(cell: RunningCell, checkpointId: string): Promise<LayerRef> {
  const grant = await cells.writeGrant(checkpointId);
  const request = { grant, contents: ["filesystem" as const], keepRunning: true, asLayer: true as const };
  const { manifestDigest, sizeBytes } = await cells.client.checkpoint(cell.address, request);
  return { checkpointId, manifestDigest, sizeBytes };
}

/** Starts a sandbox from a checkpoint on layers. */
async function clone(name: string, checkpoint: PublishedCheckpoint, layers: readonly LayerRef[]): Promise<RunningCell> {
  const environment = { RAMET_CELL_LAYERS: `${cells.rig.directory}/layers` };
  const cell = whileTest(await cells.rig.startCell({ name, container, start: "wait", environment }));
  const [grant, ...grants] = await Promise.all([checkpoint, ...layers].map((one) => cells.readGrant(one)));
  const { contents = both } = checkpoint;
  await cells.client.restore(cell.address, { identity: cell.identity, grant: grant!, contents, layers: grants });
  return cell;
}

const write = `import os
os.makedirs("/data/deep")
for n in range(4): open(f"/data/{n}", "wb").write(os.urandom(8 << 20))
os.link("/data/0", "/data/deep/link")
os.symlink("../0", "/data/deep/symlink")
os.chmod("/data/1", 0o4755)
os.chown("/data/2", 1000, 1000)
os.setxattr("/data/3", "user.color", b"blue")
os.remove("/usr/bin/env")
open("/tmp/left", "w").write("tmp")`;
const look = `import os
s = os.stat
print(s("/data/0").st_ino == s("/data/deep/link").st_ino, oct(s("/data/1").st_mode), s("/data/2").st_uid,
  os.getxattr("/data/3", "user.color"), os.readlink("/data/deep/symlink"), os.path.exists("/usr/bin/env"),
  open("/tmp/left").read(), len(open("/data/3", "rb").read()))`;
const expected = "True 0o104755 1000 b'blue' ../0 False tmp 8388608";
const filesOnly = (layer: LayerRef): PublishedCheckpoint => ({ ...layer, contents: ["filesystem"] });

it("has what a sandbox changed and nothing else, below clones that do not hold it in their memory", async () => {
  const builder = whileTest(await cells.boot({ name: "builder", container }));
  await python(builder, write);
  const layer = await captureLayer(builder, "layer");
  expect(layer.sizeBytes).toBeLessThan((32 << 20) + (1 << 20));
  const first = await clone("first", filesOnly(layer), []);
  expect(await python(first, look)).toBe(expected);
  await python(
    first,
    `open("/data/own", "w").write("x"); os = __import__("os"); os.rename("/data/deep", "/data/moved")`,
  );
  const memory = await cells.checkpoint(first, "memory");
  expect(memory.sizeBytes).toBeLessThan(16 << 20);
  const second = await clone("second", { checkpointId: "memory", ...memory }, [layer]);
  expect(await python(second, `import os; print(sorted(os.listdir("/data")), os.listdir("/data/moved"))`)).toMatch(
    /^\['0', '1', '2', '3', 'moved', 'own'\] \['(link', 'symlink|symlink', 'link)'\]$/,
  );
});

it("can be above another layer, whose files it deletes", async () => {
  const builder = whileTest(await cells.boot({ name: "below", container }));
  await python(
    builder,
    `import os; os.makedirs("/a/b"); open("/a/b/one", "w").write("1"); open("/a/two", "w").write("2")`,
  );
  const below = await captureLayer(builder, "below");
  const next = await clone("next", filesOnly(below), []);
  await python(next, `import os, shutil; shutil.rmtree("/a/b"); os.mkdir("/a/b"); open("/a/b/three", "w").write("3")`);
  const above = await captureLayer(next, "above");
  const last = await clone("last", filesOnly(above), [below]);
  expect(await python(last, `import os; print(os.listdir("/a/b"), open("/a/two").read())`)).toBe("['three'] 2");
});

it("is refused without the layers below it, before anything starts", async () => {
  const [below] = await Promise.all([cells.store.find({ namespace: "test", checkpointId: "above" })]);
  await expect(
    clone("without", { checkpointId: "above", manifestDigest: below!.manifestDigest, contents: ["filesystem"] }, []),
  ).rejects.toMatchObject({
    code: "InvalidArgument",
    message: expect.stringContaining("it needs the layers below") as string,
  });
});
