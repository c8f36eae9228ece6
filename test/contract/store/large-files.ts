import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { type Bucket, readWhole } from "../../../src/store/objects/bucket.ts";
import { fileKey, findPublication } from "../../../src/store/objects/layout.ts";
import { openForRead } from "../../../src/store/open.ts";
import { publish, restore, ttlMilliseconds } from "./harness.ts";
import { objectsUnderTest } from "./objects-under-test.ts";

const ref = { namespace: "team-a", checkpointId: "c1" };
const objectBytes = 4 << 20;

/** Tests files that are larger than one upload may be, in a bucket that takes little with each. */
export function largeFiles(cloud: string, makeBucket: () => Promise<Bucket>): void {
  it(`has a file in several objects if it is larger than one upload to ${cloud} may be`, async () => {
    const bucket = { ...(await makeBucket()), largestObjectBytes: objectBytes + 5 };
    const underTest = await objectsUnderTest(bucket);
    const { store } = underTest;
    const text = (length: number) => randomBytes(length / 2).toString("hex");
    const files = {
      "checkpoint.img": "state",
      "pages.img": text(2 * objectBytes + 1_000),
      "pages.meta": text(objectBytes),
      "twice.img": text(2 * objectBytes),
    };
    const { manifestDigest } = await publish({ store }, ref, files);
    expect(await restore({ store }, ref, manifestDigest)).toEqual(files);
    expect((await store.scrub()).damaged).toEqual([]);
    const { attempt } = (await findPublication(bucket, ref))!;
    const sizeOf = async (index: number) => (await readWhole(bucket, fileKey(ref, attempt, index)))?.length;
    const sizes = await Promise.all(Array.from({ length: 8 }, (_, index) => sizeOf(index)));
    expect(sizes).toEqual([5, objectBytes, objectBytes, 1_000, objectBytes, objectBytes, objectBytes, undefined]);

    // Each object is part of the whole.
    const damaged = fileKey(ref, attempt, 2);
    const bytes = (await readWhole(bucket, damaged))!;
    bytes[0] = bytes[0]! ^ 1;
    const open = async () => openForRead(await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds }));
    await bucket.delete(damaged);
    await expect(open()).rejects.toMatchObject({ code: "CheckpointLost" });
    expect((await store.scrub()).damaged).toMatchObject([{ file: "pages.img", reason: "it is missing" }]);
    await bucket.putIfAbsent(damaged, bytes);
    await expect(open()).rejects.toMatchObject({ code: "CheckpointLost" });
    expect((await store.scrub()).damaged).toMatchObject([{ file: "pages.img" }]);

    expect(await store.remove(ref)).toMatchObject({ removed: true });
    expect(await store.usage("team-a")).toMatchObject({ checkpoints: 0, contentBytes: 0, stagingBytes: 0 });
    await underTest.dispose();
  });
}
