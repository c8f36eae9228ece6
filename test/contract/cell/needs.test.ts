import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells, namespace, type PublishedCheckpoint } from "../../setup/cells.ts";

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

it("rejects memory and files of another image before anything is stopped, in a new cell and in place, and names both digests", async () => {
  const [old, replaced] = ["a", "b"].map((digit) => ({
    RAMET_IMAGE_CONFIG: JSON.stringify({ digest: `sha256:${digit.repeat(64)}` }),
  }));
  const source = await cells.boot({ name: "source", container, environment: old ?? {} });
  const { manifestDigest } = await cells.checkpoint(source, "image-1");
  const checkpoint = { checkpointId: "image-1", manifestDigest };
  const refusal = {
    code: "ImageReplaced",
    message: `restoring checkpoint image-1 failed: its memory needs the image python as sha256:${"a".repeat(12)}, but this one is sha256:${"b".repeat(12)}`,
    hint: expect.stringContaining("The image was replaced under its name") as string,
  };
  const clone = await cells.rig.startCell({ name: "clone", start: "wait", container, environment: replaced ?? {} });
  await expect(cells.restore(clone, checkpoint)).rejects.toMatchObject(refusal);

  const other = await cells.boot({ name: "other", container, environment: replaced ?? {} });
  const grant = await cells.readGrant(checkpoint);
  const request = { identity: other.identity, grant, contents: both, request: "one" };
  await expect(cells.client.restoreInPlace(other.address, request)).rejects.toMatchObject(refusal);
  expect(await cells.output(other, "echo still here")).toBe("still here");
  // Files have what differs from the image.
  const files = await cells.checkpoint(source, "image-files", { contents: ["filesystem"] });
  const ofFiles = {
    checkpointId: "image-files",
    manifestDigest: files.manifestDigest,
    contents: ["filesystem"] satisfies Contents,
  };
  const without = await cells.rig.startCell({ name: "files", start: "wait", container, environment: replaced ?? {} });
  await expect(cells.restore(without, ofFiles)).rejects.toMatchObject({
    ...refusal,
    message: `restoring checkpoint image-files failed: its files need the image python as sha256:${"a".repeat(12)}, but this one is sha256:${"b".repeat(12)}`,
  });
  const named = { ...container, image: "registry.example/python" };
  const renamed = await cells.clone({ name: "renamed", container: named, environment: old ?? {} }, ofFiles);
  expect(await cells.client.state(renamed.address)).toMatchObject({ phase: "running" });
  const unknown = await cells.rig.startCell({ name: "unknown", start: "wait", container: named });
  await expect(cells.restore(unknown, ofFiles)).rejects.toMatchObject({
    code: "NeedNotMet",
    message:
      "restoring checkpoint image-files failed: its files need the image python, but the sandbox has registry.example/python",
    hint: expect.stringContaining("Use a template with the image python") as string,
  });
});

it("rejects memory on a CPU that lacks a feature, names it, and reports the CPU", async () => {
  const checkpoint = await captured("cpu-1", both);
  // Stands in for another CPU: its list of features is short.
  const other = join(cells.rig.directory, "runsc-cpu");
  const script = `#!/bin/sh\n[ "$1" = cpu-features ] && echo "fpu,sse2" && exit\nexec ${cells.rig.tools.runsc} "$@"\n`;
  await writeFile(other, script, { mode: 0o755 });
  const cell = await cells.rig.startCell({
    name: "clone",
    start: "wait",
    container,
    environment: { RAMET_RUNSC: other },
  });
  await expect(cells.restore(cell, checkpoint)).rejects.toMatchObject({
    code: "CpuFeaturesMissing",
    message: expect.stringMatching(
      /^restoring checkpoint cpu-1 failed: it needs the CPU features .*, which the node's CPU does not have$/,
    ) as string,
  });
  // The controllers read it in the moment before the cell exits.
  expect((await cells.client.state(cell.address)).engine?.cpuFeatures).toEqual(["fpu", "sse2"]);
});

it("restores files with any build, and reports its own", async () => {
  const cell = await restoredInOtherBuild(await captured("files-1", ["filesystem"]));
  expect(await cells.client.state(cell.address)).toMatchObject({
    phase: "running",
    ready: true,
    engine: { version: "of-later" },
  });
});
