import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { digestOf, encodeManifest, piecesOf } from "../../../src/store/manifest.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import { files, other, ref } from "./checkpoints.ts";
import { draft, secret } from "./draft.ts";
import {
  imageOf,
  openRead,
  publish,
  restore,
  ttlMilliseconds,
  writeFiles,
  type Files,
  type StoreUnderTest,
} from "./harness.ts";
import { upkeepContract } from "./upkeep-contract.ts";

const hour = 3_600_000;
const empty = { checkpoints: 0, contents: 0, contentBytes: 0, sharedBytes: 0, stagingBytes: 0 };

/** The contract of all store drivers. `make` creates an empty store for each test. */
export function storeContract(driver: string, make: () => Promise<StoreUnderTest>): void {
  describe(`the ${driver} store`, () => {
    let s: StoreUnderTest;
    beforeEach(async () => {
      s = await make();
    });
    afterEach(() => s.dispose());

    describe("publishing", () => {
      it("returns exactly the published files", async () => {
        const { manifestDigest, sizeBytes } = await publish(s, ref, files);
        expect(sizeBytes).toBe(300_012);
        expect(await restore(s, ref, manifestDigest)).toEqual(files);
        expect(await s.store.find(ref)).toEqual({ manifestDigest, sizeBytes });
        const manifest = await s.store.manifest({ ...ref, digest: manifestDigest });
        expect(manifest).toMatchObject({ ...ref, contents: ["memory", "filesystem"], consistency: "quiesced" });
        expect(manifest.files.map((file) => [file.name, file.sizeBytes])).toEqual([
          ["checkpoint.img", 12],
          ["pages.img", 300_000],
          ["pages_meta.img", 0],
        ]);
      });

      it.each([0, 1, 4_096, 2 ** 20, 2 ** 20 + 1, 2.5 * 2 ** 20])(
        "tells memory and files apart that %i bytes of memory are followed by",
        async (memoryPagesBytes) => {
          const [memory, written] = ["m".repeat(memoryPagesBytes), "f".repeat(300_000)];
          const sha = (text: string): string => digestOf(Buffer.from(text));
          const session = await openForWrite(await s.store.grantWrite({ ...ref, ttlMilliseconds }), s);
          await writeFiles(session.stagingPath, { "checkpoint.img": "state", "pages.img": memory + written });
          const { manifestDigest } = await session.publish(draft({ memoryPagesBytes }));
          const manifest = await s.store.manifest({ ...ref, digest: manifestDigest });
          expect(manifest.files.map(({ digest, split }) => [digest, split])).toEqual([
            [sha("state"), undefined],
            [sha(memory + written), { atBytes: memoryPagesBytes, digests: [sha(memory), sha(written)] }],
          ]);
          expect(piecesOf(manifest)).toMatchObject([
            { content: "memory", sizeBytes: "state".length + memoryPagesBytes },
            { content: "filesystem", sizeBytes: written.length },
          ]);
          expect(await restore(s, ref, manifestDigest)).toEqual({
            "checkpoint.img": "state",
            "pages.img": memory + written,
          });
        },
      );

      it("stores the names but not the values of environment variables", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        const manifest = await s.store.manifest({ ...ref, digest: manifestDigest });
        expect(manifest.container.envNames).toEqual(["API_KEY"]);
        expect(encodeManifest(manifest)).toMatchObject({ digest: manifestDigest });
        expect(encodeManifest(manifest).bytes.toString()).not.toContain(secret);
      });

      it("shows nothing before the publication and after abandon", async () => {
        const session = await openForWrite(await s.store.grantWrite({ ...ref, ttlMilliseconds }), s);
        await writeFiles(session.stagingPath, files);
        expect(await s.store.has(ref)).toBe(false);
        await session.abandon();
        await session.abandon();
        expect(await s.store.has(ref)).toBe(false);
        expect(await s.store.usage("team-a")).toEqual(empty);
      });

      it("returns the first result when it is repeated with equal content", async () => {
        const first = await publish(s, ref, files);
        const session = await openForWrite(await s.store.grantWrite({ ...ref, ttlMilliseconds }), s);
        expect(session.published?.manifestDigest).toBe(first.manifestDigest);
        await writeFiles(session.stagingPath, files);
        expect(await session.publish(draft())).toMatchObject({ manifestDigest: first.manifestDigest });
        expect(await s.store.usage("team-a")).toMatchObject({ checkpoints: 1, stagingBytes: 0 });
      });

      it("rejects other content under the same id and keeps the first", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        await expect(publish(s, ref, { ...files, "pages.img": "other" })).rejects.toMatchObject({
          code: "AlreadyExists",
        });
        expect(await restore(s, ref, manifestDigest)).toEqual(files);
        s.advance(hour);
        await s.store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: -hour });
        expect(await s.store.usage("team-a")).toMatchObject({ contentBytes: 300_012, stagingBytes: 0 });
      });

      it("stores concurrently published equal content once, or once per checkpoint", async () => {
        const refs = Array.from({ length: 6 }, (_, i) => ({ ...ref, checkpointId: `c${i}` }));
        const all = await Promise.all(refs.map((each) => publish(s, each, files)));
        for (const [i, { manifestDigest }] of all.entries()) {
          expect(await restore(s, refs[i]!, manifestDigest)).toEqual(files);
        }
        const used = s.traits.sharesContent
          ? { contents: 3, contentBytes: 300_012, sharedBytes: 5 * 300_012 }
          : { contents: 18, contentBytes: 6 * 300_012, sharedBytes: 0 };
        expect(await s.store.usage("team-a")).toEqual({ ...empty, checkpoints: 6, ...used });
      });

      it("lets one of several concurrent publications of an id win, or all if they are equal", async () => {
        const same = await Promise.all([1, 2, 3].map(() => publish(s, ref, files)));
        expect(new Set(same.map((each) => each.manifestDigest)).size).toBe(1);
        const rivals = await Promise.allSettled(
          ["a", "b", "c"].map((page) => publish(s, other, { "pages.img": page })),
        );
        const winners = rivals.filter((each) => each.status === "fulfilled");
        expect(winners).toHaveLength(1);
        expect(await s.store.find(other)).toMatchObject({ manifestDigest: winners[0]!.value.manifestDigest });
      });

      it.each([
        ["a checkpoint without files", {}],
        ["an invalid file name", { ".hidden": "x" }],
      ])("rejects %s and leaves nothing", async (_, bad: Files) => {
        await expect(publish(s, ref, bad)).rejects.toMatchObject({ code: "InvalidArgument" });
        expect(await s.store.has(ref)).toBe(false);
      });

      it("leaves nothing when it is aborted", async () => {
        const session = await openForWrite(await s.store.grantWrite({ ...ref, ttlMilliseconds }), s);
        await writeFiles(session.stagingPath, files);
        await expect(session.publish(draft(), AbortSignal.abort())).rejects.toMatchObject({ code: "Canceled" });
        expect(await s.store.has(ref)).toBe(false);
      });
    });

    describe("grants", () => {
      it("are valid for one kind of access", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        const write = await s.store.grantWrite({ ...ref, ttlMilliseconds });
        const read = await s.store.grantRead({ ...ref, manifestDigest, ttlMilliseconds });
        await expect(openForRead(write, s)).rejects.toMatchObject({ code: "GrantInvalid" });
        await expect(openForWrite(read, s)).rejects.toMatchObject({ code: "GrantInvalid" });
      });

      it("expire", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        const read = await s.store.grantRead({ ...ref, manifestDigest, ttlMilliseconds });
        const write = await s.store.grantWrite({ ...other, ttlMilliseconds });
        const late = await openForWrite(write, s);
        await writeFiles(late.stagingPath, files);
        s.advance(ttlMilliseconds);
        await expect(openForRead(read, s)).rejects.toMatchObject({ code: "GrantInvalid" });
        await expect(openForWrite(write, s)).rejects.toMatchObject({ code: "GrantInvalid" });
        await expect(late.publish(draft())).rejects.toMatchObject({ code: "GrantInvalid" });
      });

      it("give no access to another namespace by a changed name", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        await publish(s, { ...other, namespace: "team-b" }, { "pages.img": "theirs" });
        const own = await s.store.grantRead({ ...ref, namespace: "team-b", manifestDigest, ttlMilliseconds });
        await expect(openForRead(own, s)).rejects.toMatchObject({ code: "CheckpointLost" });
        await expect(openForRead({ ...own, namespace: "team-a" }, s)).rejects.toMatchObject({ code: "GrantInvalid" });
      });

      it("open only the manifest with the recorded digest", async () => {
        await publish(s, ref, files);
        const digest = (await publish(s, other, files)).manifestDigest;
        await expect(openRead(s, ref, digest)).rejects.toMatchObject({ code: "CheckpointLost" });
        await expect(s.store.manifest({ ...ref, digest })).rejects.toMatchObject({ code: "CheckpointLost" });
      });

      it.each(["../team-b", "a/b", "A", "", ".", "..", "a..", "_doomed", "x".repeat(201)])(
        "are not created for the id %j",
        async (checkpointId) => {
          const bad = { namespace: "team-a", checkpointId };
          const refused = { code: "InvalidArgument" };
          await expect(s.store.grantWrite({ ...bad, ttlMilliseconds })).rejects.toMatchObject(refused);
          await expect(s.store.remove(bad)).rejects.toMatchObject(refused);
          await expect(s.store.find(bad)).rejects.toMatchObject(refused);
          await expect(s.store.has({ namespace: checkpointId, checkpointId: "a" })).rejects.toMatchObject(refused);
        },
      );
    });

    describe("opening", () => {
      it("reports a missing checkpoint", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        await expect(openRead(s, other, manifestDigest)).rejects.toMatchObject({ code: "CheckpointLost" });
        await expect(s.store.manifest({ ...other, digest: manifestDigest })).rejects.toMatchObject({
          code: "CheckpointLost",
        });
      });

      it("normally hashes nothing", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        const session = await openRead(s, ref, manifestDigest);
        expect(session.rehashed).toEqual([]);
        await session.release();
        await session.release();
      });

      it("rejects damaged content", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        await s.damage(ref, "pages.img");
        await expect(openRead(s, ref, manifestDigest)).rejects.toMatchObject({
          code: "CheckpointLost",
          message: expect.stringContaining("pages.img") as string,
        });
      });
    });

    describe("removing", () => {
      it("frees the content, can be repeated, and allows a reuse of the id", async () => {
        await publish(s, ref, files);
        expect(await s.store.remove(ref)).toMatchObject({ removed: true });
        expect(await s.store.remove(ref)).toEqual({ removed: false, freedBytes: 0 });
        expect(await s.store.usage("team-a")).toEqual(empty);
        const again = await publish(s, ref, { "pages.img": "new" });
        expect(await restore(s, ref, again.manifestDigest)).toEqual({ "pages.img": "new" });
      });

      it("succeeds for an unknown checkpoint in an unknown namespace", async () => {
        expect(await s.store.remove(ref)).toEqual({ removed: false, freedBytes: 0 });
      });

      it("keeps equal content of another checkpoint", async () => {
        await publish(s, ref, files);
        const { manifestDigest, sharedBytes } = await publish(s, other, { ...files, "pages.img": "only here" });
        expect(sharedBytes).toBe(s.traits.sharesContent ? 12 : 0);
        await s.store.remove(ref);
        expect(await restore(s, other, manifestDigest)).toEqual({ ...files, "pages.img": "only here" });
        expect(await s.store.usage("team-a")).toMatchObject({ checkpoints: 1, contentBytes: 21 });
      });

      it("keeps the files of a restore in progress until a later sweep", async () => {
        const { manifestDigest } = await publish(s, ref, files);
        const session = await openRead(s, ref, manifestDigest);
        await s.store.remove(ref);
        expect(await imageOf(session)).toEqual(files);
        await session.release();
        await s.store.sweep({ livenessOf: () => Promise.resolve("absent"), olderThanMilliseconds: hour });
        expect(await s.store.usage("team-a")).toEqual(empty);
      });

      it("lets concurrent restores see the whole checkpoint or CheckpointLost", async () => {
        for (let round = 0; round < 10; round += 1) {
          const { manifestDigest } = await publish(s, ref, files);
          const opening = Array.from({ length: 4 }, () => restore(s, ref, manifestDigest));
          const [removal, ...opened] = await Promise.allSettled([s.store.remove(ref), ...opening]);
          expect(removal.status).toBe("fulfilled");
          for (const each of opened) {
            if (each.status === "fulfilled") expect(each.value).toEqual(files);
            else expect(each.reason).toMatchObject({ code: "CheckpointLost" });
          }
        }
      });
    });

    upkeepContract(() => s);

    it("shares neither names nor content between namespaces", async () => {
      const there = { ...ref, namespace: "team-b" };
      const here = await publish(s, ref, files);
      const theirs = await publish(s, there, files);
      expect(theirs.sharedBytes).toBe(0);
      await s.store.remove(ref);
      expect(await restore(s, there, theirs.manifestDigest)).toEqual(files);
      expect(here.manifestDigest).not.toBe(theirs.manifestDigest);
    });

    it("reports no problem for a healthy store", async () => {
      expect((await s.store.probe()).problem).toBeUndefined();
    });
  });
}
