import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { RametError } from "../../../src/base/errors.ts";
import type { Grant } from "../../../src/api/cell/grant.ts";
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

/** What holds when a cloud, or the way to it, does not do what it should. */
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

    test.each<[string, number, Fault, (method: string, path: string) => boolean]>([
      ["asks to slow down", 3, "slow-down", (method) => method === "PUT"],
      ["takes files and its answer is lost", 2, "lose-answer", (method, path) => method === "PUT" && ofFile(path)],
      [
        "takes the manifest and its answer is lost",
        1,
        "lose-answer",
        (method, path) => method === "PUT" && !ofFile(path),
      ],
      ["gets other bytes than were sent", 2, "spoil", (method, path) => method === "PUT" && ofFile(path)],
      ["asks readers to slow down", 3, "slow-down", (method, path) => method === "GET" && ofFile(path)],
      ["breaks off answers to readers", 3, "lose-answer", (method) => method === "GET"],
    ])("a store that %s is asked again, and the checkpoint is whole", async (_, count, fault, isMet) => {
      proxy.choose = faults(count, fault, isMet);
      const { manifestDigest } = await publish({ store }, ref, files);
      expect(await restore({ store }, ref, manifestDigest)).toEqual(files);
      expect((await store.scrub()).damaged).toEqual([]);
      expect(await store.usage("team-a")).toMatchObject({ checkpoints: 1, stagingBytes: 0 });
    });

    test("a store that is away says so, to controllers and cells, and is taken up again when it is back", async () => {
      const { manifestDigest } = await publish({ store }, ref, files);
      const read = await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds });
      const write = await store.grantWrite({ ...ref, checkpointId: "c2", ttlMilliseconds });
      const session = await openForWrite(write, { scratchPath });
      await writeFiles(session.stagingPath, files);
      await server.kill();
      const away = {
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
        await expect(use()).rejects.toMatchObject(away);
      }
      expect((await store.probe()).problem).toMatchObject(away);
      await server.restart();
      const again = await openForRead(read);
      expect(await imageOf(again)).toEqual(files);
      await again.release();
      await session.publish(draft());
      await session.abandon();
      expect(await store.has({ ...ref, checkpointId: "c2" })).toBe(true);
    });

    test("no error says what was signed, nor has it in what caused it", async () => {
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

    test("what the store itself lets expire is refused, however the cell's clock goes", async () => {
      const { manifestDigest } = await publish({ store }, ref, files);
      const read = await store.grantRead({ ...ref, manifestDigest, ttlMilliseconds: 1_000 });
      const yesterday = shiftedClock(() => -86_400_000);
      const open = async () => failure(openForRead(read, { clock: yesterday }).then((session) => session.release()));
      await expect.poll(async () => (await open().catch(() => undefined))?.code).toBe("GrantInvalid");
    });

    test("a right to write one attempt is good for that one", async () => {
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

    test("keys that the store does not know are said to be what is wrong", async () => {
      const { variable, value } = cloud.strangeKey;
      const known = process.env[variable];
      process.env[variable] = value;
      try {
        const strange = await storeAt(location);
        const hint = expect.stringContaining(cloud.right) as string;
        await expect(strange.has(ref)).rejects.toMatchObject({ code: "StoreUnavailable", hint });
        expect((await strange.probe()).problem).toMatchObject({ code: "StoreReadOnly", hint });
        const write = await strange.grantWrite({ ...ref, ttlMilliseconds });
        await expect(openForWrite(write)).rejects.toMatchObject({ code: "GrantInvalid" });
      } finally {
        process.env[variable] = known;
      }
    });

    test("a bucket that is missing is said to be", async () => {
      const nowhere = await storeAt(cloud.elsewhere(location));
      const refused = { code: "StoreUnavailable", message: expect.stringContaining(cloud.noBucket) as string };
      await expect(nowhere.bind("cluster")).rejects.toMatchObject(refused);
      expect((await nowhere.probe()).problem).toMatchObject(refused);
    });

    test("what is too large for one file is refused: where that is foretold before anything is written, else before anything is sent", async () => {
      const tooLarge = { code: "CheckpointTooLarge", hint: expect.stringContaining("memory") as string };
      const grant = await store.grantWrite({ ...ref, ttlMilliseconds });
      await expect(openForWrite(grant, { expectedBytes: cloud.largestFileBytes + 1 })).rejects.toMatchObject(tooLarge);
      const session = await openForWrite(grant, { scratchPath, expectedBytes: cloud.largestFileBytes });
      const path = join(session.stagingPath, "pages.img");
      await writeFile(path, "");
      await truncate(path, cloud.largestFileBytes + 1);
      await expect(session.publish(draft())).rejects.toMatchObject(tooLarge);
      await session.abandon();
      expect(await store.namespaces()).toEqual([]);
    });
  });
}

/** The first `count` requests of a kind meet a fault. */
function faults(count: number, fault: Fault, isMet: (method: string, path: string) => boolean): FaultProxy["choose"] {
  let left = count;
  return ({ method, path }) => (isMet(method, path) && left-- > 0 ? fault : "pass");
}

const ofFile = (path: string): boolean => /\/\d{13}-[0-9a-f]{16}\/\d\?/.test(path);

/** As it stands in signed URLs. */
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
