import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { s3Bucket } from "../../../src/store/objects/s3.ts";
import { readWhole } from "../../../src/store/objects/bucket.ts";
import { fileKey, newAttempt } from "../../../src/store/objects/layout.ts";
import { findPublication } from "../../../src/store/objects/published.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { parseManifest } from "../../../src/store/manifest.ts";
import { startS3Server, type S3Server } from "../../setup/s3-server.ts";
import type { StoreUnderTest } from "./harness.ts";
import { storeContract } from "./store-contract.ts";

let server: S3Server;
beforeAll(async () => {
  server = await startS3Server();
  Object.assign(process.env, server.environment);
});
afterAll(() => server.stop());

async function makeStore(): Promise<StoreUnderTest> {
  const { endpoint } = server;
  const bucket = s3Bucket({ driver: "s3", bucket: await server.makeBucket(), prefix: "ramet/store", endpoint });
  const scratchPath = await mkdtemp(join(tmpdir(), "ramet-scratch-"));
  let offset = 0;
  const now = () => Date.now() + offset;
  return {
    store: objectStore({ bucket, now }),
    traits: { sharesContent: false, sweptPublication: "spared", filesStored: "uploaded" },
    now,
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

storeContract("S3", makeStore);

test("a bucket with more objects than one answer has is listed to the end", async () => {
  const bucket = s3Bucket({ driver: "s3", bucket: await server.makeBucket(), endpoint: server.endpoint });
  const ids = Array.from({ length: 1_050 }, (_, index) => `c${index}`);
  for (let from = 0; from < ids.length; from += 50) {
    await Promise.all(
      ids.slice(from, from + 50).map((checkpointId) => {
        const key = fileKey({ namespace: "team-a", checkpointId }, newAttempt(Date.now()), 0);
        return bucket.putIfAbsent(key, Buffer.from("x"));
      }),
    );
  }
  expect(await objectStore({ bucket }).usage("team-a")).toMatchObject({ checkpoints: 0, stagingBytes: 1_050 });
});
