import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { provideLayer, unpackFailure } from "./layer-cache.ts";

it("reports an unpacking that was ended, as one of a slow disk is, as late, and releases the checkpoint", async () => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-layer-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const link = join(directory, "link");
  await writeFile(link, "#!/bin/sh\nkill -9 $$\n", { mode: 0o700 });
  const ref = { checkpointId: "a", manifestDigest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 };
  let released = 0;
  const release = (): Promise<void> => Promise.resolve(void (released += 1));
  const layers = join(directory, "layers");
  const provided = provideLayer(ref, { layers, link }, () => Promise.resolve({ imagePath: directory, release }));
  await expect(provided).rejects.toMatchObject({ code: "Timeout" });
  expect(released).toBe(1);
  expect(await readdir(layers)).toEqual([]);
});

it("reports a damaged layer as lost, and what a node cannot hold by its cause", () => {
  const codeOf = (answer: object) => unpackFailure(JSON.stringify(answer), "").code;
  expect(codeOf({ message: "etc/passwd: entry outside of the root", damaged: true })).toBe("CheckpointLost");
  expect(codeOf({ message: "mkdir a: name too long", errno: "ENAMETOOLONG", damaged: true })).toBe("CheckpointLost");
  // The remedy of a full store would free nothing on the node.
  expect(unpackFailure(JSON.stringify({ message: "write a: no space left", errno: "ENOSPC" }), "")).toMatchObject({
    code: "StoreFull",
    hint: expect.stringContaining("Free space on the node's disk") as string,
  });
  expect(codeOf({ message: "write a: input/output error", errno: "EIO" })).toBe("Unavailable");
  expect(codeOf({ message: "open a: read-only file system", errno: "EROFS" })).toBe("Unavailable");
  // What is not known to be a damage is the node's.
  expect(codeOf({ message: "open a: no such device", errno: "ENODEV" })).toBe("Unavailable");
  expect(codeOf({ message: "a.lock is not a file" })).toBe("Unavailable");
  expect(unpackFailure("", "fatal error: out of memory")).toMatchObject({
    code: "Unavailable",
    message: "unpacking a layer failed: fatal error: out of memory",
  });
});
