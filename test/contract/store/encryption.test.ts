import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CheckpointStore } from "../../../src/store/checkpoint-store.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { encryptedStore, type EncryptionKey } from "../../../src/store/encryption/encrypted-store.ts";
import type { CheckpointRef } from "../../../src/store/checkpoint-id.ts";
import { readWhole } from "../../../src/store/objects/bucket.ts";
import { checkpointPrefix } from "../../../src/store/objects/layout.ts";
import { s3Bucket } from "../../../src/store/objects/s3/s3-bucket.ts";
import { objectStore } from "../../../src/store/objects/store.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import { startS3Server, type S3Server } from "../../setup/s3-server.ts";
import { draft } from "./draft.ts";
import { publish, restore, ttlMilliseconds, writeFiles } from "./harness.ts";

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

/** The objects of a checkpoint by their names below it. */
type Objects = Record<string, Buffer>;

/** A store without encryption, and its objects as someone with all rights on them has them. */
interface Stored {
  store: CheckpointStore;
  /** The content of all objects. */
  all: () => Promise<Buffer>;
  objectsOf: (ref: CheckpointRef) => Promise<Objects>;
  replaceObjects: (ref: CheckpointRef, objects: Objects) => Promise<void>;
  /** The name of the file `pages.img` among the objects of a checkpoint. */
  pagesOf: (objects: Objects) => string;
}

const drivers: Record<string, () => Promise<Stored>> = {
  directory: async () => {
    const root = await mkdtemp(join(directory, "store-"));
    await mkdir(join(root, "x"));
    const objectsBelow = async (path: string): Promise<Objects> => {
      const entries = await readdir(path, { recursive: true, withFileTypes: true });
      const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
      return Object.fromEntries(
        await Promise.all(paths.map(async (each) => [relative(path, each), await readFile(each)] as const)),
      );
    };
    const pathOf = ({ namespace, checkpointId }: CheckpointRef) => join(root, namespace, "checkpoints", checkpointId);
    return {
      store: directoryStore({ root }),
      all: async () => Buffer.concat(Object.values(await objectsBelow(root))),
      objectsOf: (at) => objectsBelow(pathOf(at)),
      replaceObjects: async (at, objects) => {
        const path = pathOf(at);
        await rm(path, { recursive: true });
        for (const [name, bytes] of Object.entries(objects)) {
          await mkdir(dirname(join(path, name)), { recursive: true });
          await writeFile(join(path, name), bytes);
        }
        await forgeFingerprints(path);
      },
      pagesOf: () => "image/pages.img",
    };
  },
  S3: async () => {
    const bucket = s3Bucket({ driver: "s3", bucket: await server.makeBucket(), endpoint: server.endpoint });
    const objectsBelow = async (prefix: string): Promise<Objects> => {
      const found: Objects = {};
      for await (const { key: name } of bucket.list(prefix))
        found[name.slice(prefix.length)] = (await readWhole(bucket, name)) ?? Buffer.alloc(0);
      return found;
    };
    return {
      store: objectStore({ bucket }),
      all: async () => Buffer.concat(Object.values(await objectsBelow(""))),
      objectsOf: (at) => objectsBelow(checkpointPrefix(at)),
      replaceObjects: async (at, objects) => {
        const prefix = checkpointPrefix(at);
        for await (const { key: name } of bucket.list(prefix)) await bucket.delete(name);
        for (const [name, bytes] of Object.entries(objects)) await bucket.putIfAbsent(`${prefix}${name}`, bytes);
      },
      // Files are numbered in the order of their names.
      pagesOf: (objects) => Object.keys(objects).find((name) => name.endsWith("/1"))!,
    };
  },
};

/** A restore that trusts the sizes and times of files then finds nothing that has changed. */
async function forgeFingerprints(checkpoint: string): Promise<void> {
  const image = join(checkpoint, "image");
  const forged = (await readdir(image)).map(async (name) => {
    const { size, ino, mtimeNs } = await stat(join(image, name), { bigint: true });
    return [name, { sizeBytes: `${size}`, inode: `${ino}`, modifiedNanoseconds: `${mtimeNs}` }] as const;
  });
  const record = { v: 1, files: Object.fromEntries(await Promise.all(forged)) };
  await writeFile(join(checkpoint, "fingerprints.json"), JSON.stringify(record));
}

const headerBytes = 16;
const chunkBytes = (1 << 20) + 16;

/** How the encrypted `pages.img` changes, which has two whole chunks and a part of a third one. */
const changes: Record<string, (pages: Buffer) => Buffer> = {
  "cut off after a chunk": (pages) => pages.subarray(0, headerBytes + 2 * chunkBytes),
  "has its chunks in another order": (pages) => {
    const chunk = (at: number) => pages.subarray(headerBytes + at * chunkBytes, headerBytes + (at + 1) * chunkBytes);
    return Buffer.concat([pages.subarray(0, headerBytes), chunk(1), chunk(0), chunk(2)]);
  },
  "has another header": (pages) => Buffer.concat([Buffer.alloc(headerBytes, "RAMETENC1"), pages.subarray(headerBytes)]),
  "is not encrypted": (pages) => Buffer.alloc(pages.length, marker),
};

describe.each(Object.keys(drivers))("an encrypted %s store", (driver) => {
  const open = async (keys: Record<string, EncryptionKey>, current: string | undefined) => {
    const stored = await drivers[driver]!();
    const { store: plain } = stored;
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
    const all = await stored.all();
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

  it("refuses to adopt what was published without encryption while checkpoints are encrypted", async () => {
    const { store, plain, state } = await open({ k1: key("k1", 1) }, "k1");
    const { manifestDigest: digest } = await publish({ store: plain }, ref, files);
    await expect(store.manifest({ ...ref, digest, isAdopted: true })).rejects.toMatchObject({
      code: "CheckpointLost",
      hint: expect.stringContaining("who can write the store") as string,
    });
    // A status has the digest of a checkpoint from before encryption.
    expect((await store.manifest({ ...ref, digest })).checkpointId).toBe(ref.checkpointId);
    state.current = undefined;
    expect((await store.manifest({ ...ref, digest, isAdopted: true })).checkpointId).toBe(ref.checkpointId);
    state.current = "k1";
    const own = { ...ref, checkpointId: "c2" };
    const encrypted = await publish({ store }, own, files);
    const manifest = await store.manifest({ ...own, digest: encrypted.manifestDigest, isAdopted: true });
    expect(manifest.encryption).toBeDefined();
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

  /** Publishes c1, and replaces `pages.img` by what `change` returns. */
  const changed = async (
    { store, stored }: Awaited<ReturnType<typeof open>>,
    change: (pages: Buffer) => Buffer | Promise<Buffer>,
  ) => {
    const { manifestDigest } = await publish({ store }, ref, files);
    const objects = await stored.objectsOf(ref);
    const name = stored.pagesOf(objects);
    await stored.replaceObjects(ref, { ...objects, [name]: await change(objects[name]!) });
    return manifestDigest;
  };

  it.each(Object.keys(changes))("refuses a file that %s", async (how) => {
    const world = await open({ k1: key("k1", 1) }, "k1");
    const manifestDigest = await changed(world, changes[how]!);
    await expect(restore(world, ref, manifestDigest)).rejects.toMatchObject({ code: "CheckpointLost" });
  });

  it.each([
    ["another checkpoint", { ...ref, checkpointId: "c2" }],
    ["another namespace", { ...ref, namespace: "team-b" }],
  ])("refuses the file of %s in the place of one", async (_, victim) => {
    const world = await open({ k1: key("k1", 1) }, "k1");
    await publish(world, victim, files);
    const manifestDigest = await changed(world, async () => {
      const objects = await world.stored.objectsOf(victim);
      return objects[world.stored.pagesOf(objects)]!;
    });
    await expect(restore(world, ref, manifestDigest)).rejects.toMatchObject({
      code: "CheckpointLost",
      message: expect.stringMatching(/cannot be decrypted|has the digest/) as string,
    });
  });

  it.each(["as a whole", "by its files only"])("refuses an earlier checkpoint of the same id, %s", async (how) => {
    const { store, stored } = await open({ k1: key("k1", 1) }, "k1");
    await publish({ store }, ref, files);
    const earlier = await stored.objectsOf(ref);
    await store.remove(ref);
    const { manifestDigest } = await publish({ store }, ref, files, { cutAt: "2026-11-21T13:00:00.000Z" });
    const now = await stored.objectsOf(ref);
    const mixed = { ...now, [stored.pagesOf(now)]: earlier[stored.pagesOf(earlier)]! };
    await stored.replaceObjects(ref, how === "as a whole" ? earlier : mixed);
    const message = how === "as a whole" ? /its manifest has the digest/ : /cannot be decrypted|has the digest/;
    await expect(restore({ store }, ref, manifestDigest)).rejects.toMatchObject({
      code: "CheckpointLost",
      message: expect.stringMatching(message) as string,
    });
  });

  it.each([
    ["another checkpoint", { ...ref, checkpointId: "c2" }],
    ["another namespace", { ...ref, namespace: "team-b" }],
  ])("gives a cell that publishes the envelope of %s no key for it", async (_, victim) => {
    const { store } = await open({ k1: key("k1", 1) }, "k1");
    const { manifestDigest: ofVictim } = await publish({ store }, victim, files);
    const { encryption: envelope } = await store.manifest({ ...victim, digest: ofVictim });
    const { encryption, ...grant } = await store.grantWrite({ ...ref, ttlMilliseconds });
    expect(encryption?.envelope).not.toEqual(envelope);
    const session = await openForWrite(grant);
    await writeFiles(session.stagingPath, files);
    const { manifestDigest } = await session.publish(draft({ encryption: envelope! }));
    await expect(store.grantRead({ ...ref, manifestDigest, ttlMilliseconds })).rejects.toMatchObject({
      code: "KeyUnavailable",
    });
  });
});
