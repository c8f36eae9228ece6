import { afterAll, beforeAll, expect, it } from "vitest";
import { s3Bucket } from "../../../src/store/objects/s3/s3-bucket.ts";
import { fileKey, newAttempt } from "../../../src/store/objects/layout.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { startS3Server, type S3Server } from "../../setup/s3-server.ts";
import { largeFiles } from "./large-files.ts";
import { objectsUnderTest } from "./objects-under-test.ts";
import { storeContract } from "./store-contract.ts";

let server: S3Server;
beforeAll(async () => {
  server = await startS3Server();
  Object.assign(process.env, server.environment);
});
afterAll(() => server.stop());

storeContract("S3", async () => {
  const location = { driver: "s3", bucket: await server.makeBucket(), endpoint: server.endpoint } as const;
  return objectsUnderTest(s3Bucket({ ...location, prefix: "ramet/store" }));
});

largeFiles("S3", async () => s3Bucket({ driver: "s3", bucket: await server.makeBucket(), endpoint: server.endpoint }));

it("lists all objects of a bucket that has more than one page", async () => {
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
