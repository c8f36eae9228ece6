import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseManifest } from "../../../src/store/manifest.ts";
import { type Bucket, readWhole } from "../../../src/store/objects/bucket.ts";
import { fileKey, findPublication } from "../../../src/store/objects/layout.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { type StoreUnderTest, shiftedClock } from "./harness.ts";

/** Creates a store in an empty bucket of any cloud. */
export async function objectsUnderTest(bucket: Bucket): Promise<StoreUnderTest> {
  const scratchPath = await mkdtemp(join(tmpdir(), "ramet-scratch-"));
  let offset = 0;
  const clock = shiftedClock(() => offset);
  return {
    store: objectStore({ bucket, clock }),
    traits: { sharesContent: false, sweptPublication: "spared", filesStored: "uploaded" },
    clock,
    scratchPath,
    advance: (milliseconds) => {
      offset += milliseconds;
    },
    damage: async (ref, file) => {
      const { attempt, manifestBytes } = (await findPublication(bucket, ref))!;
      const index = parseManifest(manifestBytes, ref).files.findIndex(({ name }) => name === file);
      const key = fileKey(ref, attempt, index);
      const bytes = (await readWhole(bucket, key))!;
      bytes[0] = bytes[0]! ^ 1;
      await bucket.delete(key);
      await bucket.putIfAbsent(key, bytes);
    },
    dispose: () => rm(scratchPath, { recursive: true }),
  };
}
