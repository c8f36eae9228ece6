import { execFile } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { S3Location } from "../../../src/api/s3-address.ts";
import { formatStoreAddress } from "../../../src/api/store-address.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import { builtPrograms } from "../../setup/built-package.ts";
import { startS3Server, type S3Server } from "../../setup/s3-server.ts";
import { publish } from "./harness.ts";

/** The package as it is built: the client of S3 is a part of it, and not installed beside it. */
let server: S3Server;
let location: S3Location;
beforeAll(async () => {
  server = await startS3Server();
  Object.assign(process.env, server.environment);
  location = { driver: "s3", bucket: await server.makeBucket(), prefix: "ramet", endpoint: server.endpoint };
  const store = await storeAt(location);
  await store.bind("cluster-uid");
  await publish({ store, now: Date.now }, { namespace: "a", checkpointId: "one" }, { "pages.img": "x".repeat(2048) });
});
afterAll(() => server.stop());

function ramet(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const [node, program] = builtPrograms.ramet;
  const env = { PATH: process.env["PATH"], HOME: "/nowhere", ...server.environment };
  return new Promise((resolve) => {
    execFile(node, [program, ...args], { env }, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), stdout, stderr });
    });
  });
}

test("ramet store usage reads a bucket by its address", async () => {
  const { code, stdout } = await ramet("store", "usage", "--path", formatStoreAddress(location), "-o", "json");
  expect(code).toBe(0);
  const rows = [{ namespace: "a", checkpoints: 1, contents: 1, contentBytes: 2048, sharedBytes: 0, stagingBytes: 0 }];
  expect(JSON.parse(stdout)).toEqual({
    path: `s3://${location.bucket}/ramet`,
    cluster: "cluster-uid",
    namespaces: rows,
  });
});

test("ramet store scrub reads all of it", async () => {
  const { code, stderr } = await ramet("store", "scrub", "--path", formatStoreAddress(location));
  expect(stderr).toContain("1 checkpoints, 2KiB read: nothing is damaged");
  expect(code).toBe(0);
});

test("a bucket that is not there is said to be missing", async () => {
  const { code, stderr } = await ramet("store", "usage", "--path", formatStoreAddress({ ...location, bucket: "none" }));
  expect(stderr).toContain("NoSuchBucket");
  expect(code).toBe(1);
});
