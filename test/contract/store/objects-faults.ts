import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RametError } from "../../../src/base/errors.ts";
import type { Grant } from "../../../src/api/wire/grant.ts";
import type { StoreLocation } from "../../../src/api/store/store-address.ts";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import { startFaultProxy, type Fault, type FaultProxy } from "../../setup/fault-proxy.ts";
import type { ObjectServer } from "../../setup/object-server.ts";
import type { CloudUnderTest } from "./cloud-under-test.ts";
import { draft } from "./draft.ts";
import { imageOf, publish, restore, shiftedClock, ttlMilliseconds, writeFiles } from "./harness.ts";

const ref = { namespace: "team-a", checkpointId: "c1" };
const files = { "checkpoint.img": "state", "pages.img": "p".repeat(20 << 20) };

/** Tests faults of a cloud and of the network to it. */
export function objectsFaults(cloud: CloudUnderTest): void {
  describe(`a store in ${cloud.name}`, () => {
    let server: ObjectServer;
    let proxy: FaultProxy;
    let location: StoreLocation;
    let store: CheckpointStore;
    let scratchPath: string;
    beforeAll(async () => {
      server = await cloud.start();
      Object.assign(process.env, server.environment);
      proxy = await startFaultProxy(server.endpoint);
    });
    afterAll(async () => {
      await proxy.stop();
      await server.stop();
    });
    beforeEach(async () => {
      proxy.choose = () => "pass";
      location = await server.makePlace(proxy.endpoint);
      store = await storeAt(location);
      scratchPath = await mkdtemp(join(tmpdir(), "ramet-scratch-"));
    });
    afterEach(() => rm(scratchPath, { recursive: true }));

    it.each<[string, number, Fault, (method: string, path: string) => boolean]>([
      ["throttles writes", 3, "slow-down", (method) => method === "PUT"],
      ["stores files but loses the response", 2, "lose-response", (method, path) => method === "PUT" && ofFile(path)],
      [
        "stores the manifest but loses the response",
        1,
        "lose-response",
        (method, path) => method === "PUT" && !ofFile(path),
      ],
      ["receives changed bytes", 2, "corrupt", (method, path) => method === "PUT" && ofFile(path)],
      ["throttles reads", 3, "slow-down", (method, path) => method === "GET" && ofFile(path)],
      ["breaks the connection during reads", 3, "lose-response", (method) => method === "GET"],
    ])("retries when a store %s, and gets a whole checkpoint", async (_, count, fault, isAffected) => {
      proxy.choose = faults(count, fault, isAffected);
      const { manifestDigest } = await publish({ store }, ref, files);
      expect(await restore({ store }, ref, manifestDigest)).toEqual(files);
      expect((await store.scrub()).damaged).toEqual([]);
      expect(await store.usage("team-a")).toMatchObject({ checkpoints: 1, stagingBytes: 0 });
    });

    it("reports an unreachable store to controllers and cells, and uses it again when it is back", async () => {
      const { manifestDigest } = await publish({ store }, ref, files);
      const read = await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds });
      const write = await store.grantWrite({ ...ref, checkpointId: "c2", ttlMilliseconds });
      const session = await openForWrite(write, { scratchPath });
      await writeFiles(session.stagingPath, files);
      await server.kill();
      const unreachable = {
        code: "StoreUnavailable",
        retryable: true,
        hint: expect.stringContaining("object store") as string,
      };
      for (const use of [
        () => openForRead(read),
        () => openForWrite(write),
        () => session.publish(draft()),
        () => store.has(ref),
      ]) {
        await expect(use()).rejects.toMatchObject(unreachable);
      }
      expect((await store.probe()).problem).toMatchObject(unreachable);
      await server.restart();
      const again = await openForRead(read);
      expect(await imageOf(again)).toEqual(files);
      await again.release();
      await session.publish(draft());
      await session.abandon();
      expect(await store.has({ ...ref, checkpointId: "c2" })).toBe(true);
    });

    it("has no credentials or signatures in errors and their causes", async () => {
      const { manifestDigest } = await publish({ store }, ref, files);
      const read = await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds });
      const write = await store.grantWrite({ ...ref, checkpointId: "c2", ttlMilliseconds });
      const forged = JSON.parse(
        JSON.stringify(write).replaceAll(new RegExp(`${cloud.signature}....`, "g"), `${cloud.signature}0000`),
      ) as Grant;
      const elsewhere = JSON.parse(JSON.stringify(read).replaceAll(bucketOf(location), "no-such-bucket")) as Grant;
      const errors = [await failure(openForWrite(forged)), await failure(openForRead(elsewhere))];
      await server.kill();
      errors.push(await failure(openForWrite(write)), await failure(openForRead(read)), await failure(store.has(ref)));
      await server.restart();
      expect(errors.map(({ code }) => code)).toEqual([
        "GrantInvalid",
        "GrantInvalid",
        "StoreUnavailable",
        "StoreUnavailable",
        "StoreUnavailable",
      ]);
      for (const error of errors) {
        expect(inspect(error, { depth: Infinity, showHidden: true }), error.message).not.toMatch(cloud.secrets);
      }
    });

    it("rejects a grant that has expired in the store, whatever the cell's clock", async () => {
      const { manifestDigest } = await publish({ store }, ref, files);
      const read = await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds: 1_000 });
      const yesterday = shiftedClock(() => -86_400_000);
      const open = async () => failure(openForRead(read, { clock: yesterday }).then((session) => session.release()));
      await expect.poll(async () => (await open().catch(() => undefined))?.code).toBe("GrantInvalid");
    });

    it("allows only one attempt to publish with a write grant", async () => {
      const grant = await store.grantWrite({ ...ref, ttlMilliseconds });
      const first = await openForWrite(grant, { scratchPath });
      await writeFiles(first.stagingPath, files);
      const second = await openForWrite(grant, { scratchPath });
      await writeFiles(second.stagingPath, { ...files, "pages.img": "other" });
      const { manifestDigest } = await first.publish(draft());
      await expect(second.publish(draft())).rejects.toMatchObject({ code: "AlreadyExists" });
      await store.remove(ref);
      await publish({ store }, ref, files);
      await Promise.all([first.abandon(), second.abandon()]);
      expect(await restore({ store }, ref, manifestDigest)).toEqual(files);
    });

    it("reports keys that the store does not know", async () => {
      const { variable, value } = cloud.unknownKey;
      const known = process.env[variable];
      process.env[variable] = value;
      try {
        const unauthorized = await storeAt(location);
        const hint = expect.stringContaining(cloud.permission) as string;
        await expect(unauthorized.has(ref)).rejects.toMatchObject({ code: "StoreUnavailable", hint });
        expect((await unauthorized.probe()).problem).toMatchObject({ code: "StoreReadOnly", hint });
        const write = await unauthorized.grantWrite({ ...ref, ttlMilliseconds });
        await expect(openForWrite(write)).rejects.toMatchObject({ code: "GrantInvalid" });
      } finally {
        process.env[variable] = known;
      }
    });

    it("reports a missing bucket", async () => {
      const nowhere = await storeAt(cloud.elsewhere(location));
      const refused = { code: "StoreUnavailable", message: expect.stringContaining(cloud.noBucket) as string };
      await expect(nowhere.bind("cluster")).rejects.toMatchObject(refused);
      expect((await nowhere.probe()).problem).toMatchObject(refused);
    });

    it("rejects a file that is too large before it sends anything", async () => {
      const tooLarge = { code: "CheckpointTooLarge", hint: expect.stringContaining("memory") as string };
      const grant = await store.grantWrite({ ...ref, ttlMilliseconds });
      if (!("largestFileBytes" in grant)) throw new Error("it is no grant for a bucket");
      const files = grant.files.slice(0, 2);
      const session = await openForWrite({ ...grant, files, largestFileBytes: 4 << 20 }, { scratchPath });
      const path = join(session.stagingPath, "pages.img");
      await writeFile(path, "");
      await truncate(path, 2 * (4 << 20) + 1);
      await expect(session.publish(draft())).rejects.toMatchObject(tooLarge);
      await session.abandon();
      expect(await store.namespaces()).toEqual([]);
    });
  });
}

/** Applies a fault to the first `count` affected requests. */
function faults(
  count: number,
  fault: Fault,
  isAffected: (method: string, path: string) => boolean,
): FaultProxy["choose"] {
  let remaining = count;
  return ({ method, path }) => (isAffected(method, path) && remaining-- > 0 ? fault : "pass");
}

const ofFile = (path: string): boolean => /\/\d{13}-[0-9a-f]{16}\/\d\?/.test(path);

/** Returns the bucket as it is in signed URLs. */
function bucketOf(location: StoreLocation): string {
  return "container" in location ? location.container : location.bucket;
}

async function failure(operation: Promise<unknown>): Promise<RametError> {
  return operation.then(
    () => {
      throw new Error("it did not fail");
    },
    (error: unknown) => error as RametError,
  );
}
