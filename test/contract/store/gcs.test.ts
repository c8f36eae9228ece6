import { afterAll, beforeAll, expect, it } from "vitest";
import { gcsBucket } from "../../../src/store/objects/gcs/gcs-bucket.ts";
import { readWhole } from "../../../src/store/objects/bucket.ts";
import { fileKey, newAttempt } from "../../../src/store/objects/layout.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { startGcsServer, type GcsServer } from "../../setup/gcs-server.ts";
import { objectsUnderTest } from "./objects-under-test.ts";
import { storeContract } from "./store-contract.ts";

let server: GcsServer;
beforeAll(async () => {
  server = await startGcsServer();
  Object.assign(process.env, server.environment);
});
afterAll(() => server.stop());

storeContract("Google Cloud Storage", async () => {
  const location = { driver: "gcs", bucket: await server.makeBucket(), endpoint: server.endpoint } as const;
  return objectsUnderTest(gcsBucket({ ...location, prefix: "ramet/store" }));
});

it("lists all objects of a bucket that has more than one page", async () => {
  const bucket = gcsBucket({ driver: "gcs", bucket: await server.makeBucket(), endpoint: server.endpoint });
  const ids = Array.from({ length: 250 }, (_, index) => `c${index}`);
  for (let from = 0; from < ids.length; from += 50) {
    await Promise.all(
      ids.slice(from, from + 50).map((checkpointId) => {
        const key = fileKey({ namespace: "team-a", checkpointId }, newAttempt(Date.now()), 0);
        return bucket.putIfAbsent(key, Buffer.from("x"));
      }),
    );
  }
  expect(await objectStore({ bucket }).usage("team-a")).toMatchObject({ checkpoints: 0, stagingBytes: 250 });
});

it.each([0, 1, 8 << 20, (8 << 20) + 1])("reads an object of %i bytes in parts", async (size) => {
  const bucket = gcsBucket({ driver: "gcs", bucket: await server.makeBucket(), endpoint: server.endpoint });
  const bytes = Buffer.alloc(size, "0123456789a");
  expect(await bucket.putIfAbsent("object", bytes)).toBe(true);
  expect(await bucket.putIfAbsent("object", Buffer.from("other"))).toBe(false);
  expect((await readWhole(bucket, "object"))?.equals(bytes)).toBe(true);
});

it("signs requests for one method and condition, and for no other Google header", async () => {
  const bucket = gcsBucket({ driver: "gcs", bucket: await server.makeBucket(), endpoint: server.endpoint });
  await bucket.putIfAbsent("object", Buffer.from("first"));
  const [get, put] = [await bucket.signGet("object", 60_000), await bucket.signPutIfAbsent("object", 60_000)];
  const statusOf = async (method: string, url: string, headers: Record<string, string>) =>
    (await fetch(url, { method, headers, ...(method === "PUT" && { body: "second" }) })).status;
  expect(await statusOf("PUT", put.url, {})).toBe(403);
  expect(await statusOf("PUT", put.url, { "x-goog-if-generation-match": "1" })).toBe(403);
  expect(await statusOf("PUT", put.url, { ...put.headers, "x-goog-meta-owner": "me" })).toBe(403);
  expect(await statusOf("PUT", get.url, {})).toBe(403);
  expect(await statusOf("GET", get.url.replace("/object?", "/other?"), {})).toBe(403);
  expect(await statusOf("PUT", put.url, put.headers)).toBe(412);
  expect((await readWhole(bucket, "object"))?.toString()).toBe("first");
});
