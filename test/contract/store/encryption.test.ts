import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { encryptedStore, type EncryptionKey } from "../../../src/store/encryption/encrypted-store.ts";
import { readWhole } from "../../../src/store/objects/bucket.ts";
import { s3Bucket } from "../../../src/store/objects/s3/s3-bucket.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { openForRead } from "../../../src/store/open.ts";
import { startS3Server, type S3Server } from "../../setup/s3-server.ts";
import { publish, restore, ttlMilliseconds } from "./harness.ts";

let directory: string;
let server: S3Server;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-encryption-"));
  server = await startS3Server();
  Object.assign(process.env, server.environment);
});
afterAll(async () => {
  await server.stop();
  await rm(directory, { recursive: true });
});

const ref = { namespace: "team-a", checkpointId: "c1" };
const marker = "a marker of the memory";
const files = { "checkpoint.img": `kernel ${marker}`, "pages.img": marker.repeat(100_000), "pages_meta.img": "" };
const key = (name: string, byte: number): EncryptionKey => ({
  secret: "keys",
  key: name,
  bytes: Buffer.alloc(32, byte),
});

/** The plain store, and the content of all its objects. */
const drivers: Record<string, () => Promise<{ store: CheckpointStore; stored: () => Promise<Buffer> }>> = {
  directory: async () => {
    const root = await mkdtemp(join(directory, "store-"));
    await mkdir(join(root, "x"));
    const stored = async () => {
      const entries = await readdir(root, { recursive: true, withFileTypes: true });
      const found = entries.filter((entry) => entry.isFile());
      return Buffer.concat(await Promise.all(found.map((entry) => readFile(join(entry.parentPath, entry.name)))));
    };
    return { store: directoryStore({ root }), stored };
  },
  S3: async () => {
    const bucket = s3Bucket({ driver: "s3", bucket: await server.makeBucket(), endpoint: server.endpoint });
    const stored = async () => {
      const all: Buffer[] = [];
      for await (const { key: name } of bucket.list("")) all.push((await readWhole(bucket, name)) ?? Buffer.alloc(0));
      return Buffer.concat(all);
    };
    return { store: objectStore({ bucket }), stored };
  },
};

describe.each(Object.keys(drivers))("an encrypted %s store", (driver) => {
  const open = async (keys: Record<string, EncryptionKey>, current: string | undefined) => {
    const { store: plain, stored } = await drivers[driver]!();
    const state = { keys, current };
    const store = encryptedStore(plain, {
      current: () => Promise.resolve(state.keys[state.current ?? ""]),
      find: (named) => {
        const found = state.keys[named.key];
        return found === undefined ? Promise.reject(new Error(`no key ${named.key}`)) : Promise.resolve(found);
      },
    });
    return { plain, stored, state, store };
  };

  it("stores nothing that can be read, and returns what was published", async () => {
    const { store, stored } = await open({ k1: key("k1", 1) }, "k1");
    const { manifestDigest } = await publish({ store }, ref, files);
    const all = await stored();
    expect(all.length).toBeGreaterThan(files["pages.img"].length);
    expect(all.includes(marker)).toBe(false);
    expect(await restore({ store }, ref, manifestDigest)).toEqual(files);
    expect(await store.scrub()).toMatchObject({ damaged: [] });
  });

  it("reads checkpoints of replaced keys, and those from before and after encryption", async () => {
    const { store, state } = await open({ k1: key("k1", 1), k2: key("k2", 2) }, undefined);
    const ids = [undefined, "k1", "k2", undefined].map((current, at) => ({
      current,
      each: { ...ref, checkpointId: `c${at}` },
    }));
    const published: [typeof ref, string][] = [];
    for (const { current, each } of ids) {
      state.current = current;
      published.push([each, (await publish({ store }, each, files)).manifestDigest]);
    }
    for (const [each, digest] of published) expect(await restore({ store }, each, digest)).toEqual(files);
  });

  it("names the key that is another one now, and the one that is used without encryption", async () => {
    const { store, plain, state } = await open({ k1: key("k1", 1) }, "k1");
    const { manifestDigest } = await publish({ store }, ref, files);
    state.keys = { k1: key("k1", 9) };
    await expect(restore({ store }, ref, manifestDigest)).rejects.toMatchObject({
      code: "KeyUnavailable",
      message: "cannot read checkpoint team-a/c1: the key k1 of the Secret keys is not the one that encrypted it",
    });
    await expect(restore({ store: plain }, ref, manifestDigest)).rejects.toMatchObject({
      code: "KeyUnavailable",
      message: expect.stringContaining("it is encrypted with the key k1 of the Secret keys") as string,
    });
  });

  it("refuses files and envelopes of another checkpoint", async () => {
    const { store } = await open({ k1: key("k1", 1) }, "k1");
    const second = { ...ref, checkpointId: "c2" };
    const first = await publish({ store }, ref, files);
    const { manifestDigest } = await publish({ store }, second, files);
    const other = await store.grantRead({ ...second, manifestDigest, ttlMilliseconds });
    const grant = await store.grantRead({ ...ref, manifestDigest: first.manifestDigest, ttlMilliseconds });
    await expect(openForRead({ ...grant, encryption: other.encryption })).rejects.toMatchObject({
      code: "CheckpointLost",
      message: expect.stringContaining("cannot be decrypted") as string,
    });
  });
});
