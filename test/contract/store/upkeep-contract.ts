import { beforeEach, describe, expect, it } from "vitest";
import { boundStore } from "../../../src/store/store-at.ts";
import { openForWrite } from "../../../src/store/open.ts";
import { files, other, ref } from "./checkpoints.ts";
import { draft } from "./draft.ts";
import {
  leaveOrphan,
  openRead,
  publish,
  restore,
  ttlMilliseconds,
  writeFiles,
  type StoreUnderTest,
} from "./harness.ts";

const hour = 3_600_000;

/** The part of the contract about what administrators and controllers do with whole stores. */
export function upkeepContract(underTest: () => StoreUnderTest): void {
  let s: StoreUnderTest;
  beforeEach(() => {
    s = underTest();
  });

  describe("sweeping", () => {
    it("removes an unpublished attempt once it is old and its object is not unfinished", async () => {
      await leaveOrphan(s, ref, files);
      const young = await s.store.sweep({ livenessOf: () => Promise.resolve("absent"), olderThanMilliseconds: hour });
      expect(young).toMatchObject({ removedRests: 0, freedBytes: 0 });
      s.advance(2 * hour);
      await s.store.sweep({ livenessOf: () => Promise.resolve("unfinished"), olderThanMilliseconds: hour });
      expect((await s.store.usage("team-a")).stagingBytes).toBe(300_012);
      const report = await s.store.sweep({
        livenessOf: () => Promise.resolve("finished"),
        olderThanMilliseconds: hour,
      });
      expect(report).toMatchObject({ removedRests: 1, freedBytes: 300_012, removedCheckpoints: [], foreign: [] });
      expect((await s.store.usage("team-a")).stagingBytes).toBe(0);
    });

    it("removes an old checkpoint only if its object does not exist", async () => {
      const { manifestDigest } = await publish(s, ref, files);
      await publish(s, other, { "pages.img": "orphan" });
      const livenessOf = (each: { checkpointId: string }) =>
        Promise.resolve(each.checkpointId === ref.checkpointId ? ("finished" as const) : ("absent" as const));
      const young = await s.store.sweep({ livenessOf, olderThanMilliseconds: hour });
      expect(young.removedCheckpoints).toEqual([]);
      expect(young.keptCheckpoints).toHaveLength(2);
      expect(young.keptCheckpoints).toEqual(expect.arrayContaining([ref, other]));
      s.advance(2 * hour);
      const report = await s.store.sweep({ livenessOf, olderThanMilliseconds: hour });
      expect(report.removedCheckpoints).toEqual([other]);
      expect(report.keptCheckpoints).toEqual([ref]);
      expect(report.freedBytes).toBeGreaterThanOrEqual(6);
      expect((await s.store.usage("team-a")).contentBytes).toBe(300_012);
      expect(await restore(s, ref, manifestDigest)).toEqual(files);
    });

    it("removes nothing when the state of an object is unknown", async () => {
      const { manifestDigest } = await publish(s, ref, files);
      s.advance(2 * hour);
      const livenessOf = () => Promise.reject(new Error("the API server does not respond"));
      await expect(s.store.sweep({ livenessOf, olderThanMilliseconds: hour })).rejects.toThrow("does not respond");
      expect(await restore(s, ref, manifestDigest)).toEqual(files);
    });

    it("reports with dryRun exactly what a sweep removes, and removes nothing", async () => {
      const { manifestDigest } = await publish(s, ref, files);
      // It shares one file with a checkpoint that remains, and has one file of its own.
      await publish(s, other, { "pages.img": files["pages.img"]!, "checkpoint.img": "orphan" });
      const elsewhere = { namespace: "team-b", checkpointId: "b" };
      await publish(s, elsewhere, { "pages.img": "another orphan" });
      // A restore held this content when its checkpoint was removed, so no checkpoint refers to it now.
      const held = { ...ref, checkpointId: "held" };
      const session = await openRead(s, held, (await publish(s, held, { "pages.img": "unnamed" })).manifestDigest);
      await s.store.remove(held);
      await session.release();
      await leaveOrphan(s, { ...ref, checkpointId: "orphan" }, { "pages.img": "half" });
      s.advance(2 * hour);

      const livenessOf = ({ checkpointId }: { checkpointId: string }) =>
        Promise.resolve(checkpointId === ref.checkpointId ? ("finished" as const) : ("absent" as const));
      const options = { livenessOf, olderThanMilliseconds: hour };
      const usage = () => Promise.all(["team-a", "team-b"].map((namespace) => s.store.usage(namespace)));
      const before = await usage();
      const dryRun = await s.store.sweep({ ...options, dryRun: true });
      // Without shared content, a restore holds nothing in the store.
      const removedContents = s.traits.sharesContent ? 1 : 0;
      expect(dryRun).toMatchObject({ removedRests: 1, removedContents, foreign: [] });
      expect(dryRun.removedCheckpoints).toEqual(expect.arrayContaining([other, elsewhere]));
      expect(dryRun.freedBytes).toBeGreaterThanOrEqual("orphanunnamedhalfanother orphan".length);
      const there = await s.store.sweep({ ...options, dryRun: true, namespace: "team-b" });
      expect(there).toMatchObject({ removedCheckpoints: [elsewhere], removedRests: 0, removedContents: 0 });
      expect(await usage()).toEqual(before);

      expect(await s.store.sweep({ ...options, namespace: "team-b" })).toEqual(there);
      const rest = await s.store.sweep(options);
      expect(rest.freedBytes + there.freedBytes).toBe(dryRun.freedBytes);
      expect(rest).toMatchObject({ removedCheckpoints: [other], removedRests: 1, removedContents });
      expect(await s.store.sweep({ ...options, dryRun: true })).toMatchObject({
        removedCheckpoints: [],
        freedBytes: 0,
      });
      expect(await restore(s, ref, manifestDigest)).toEqual(files);
    });

    it("either spares a publication in progress or makes it fail completely, and a retry succeeds", async () => {
      const session = await openForWrite(await s.store.grantWrite({ ...ref, ttlMilliseconds }), s);
      await writeFiles(session.stagingPath, files);
      await s.store.sweep({ livenessOf: () => Promise.resolve("absent"), olderThanMilliseconds: -hour });
      if (s.traits.sweptPublication === "fails") {
        await expect(session.publish(draft())).rejects.toMatchObject({ name: "RametError" });
        expect(await s.store.has(ref)).toBe(false);
      } else {
        await session.publish(draft());
        await session.abandon();
      }
      const { manifestDigest } = await publish(s, ref, files);
      expect(await restore(s, ref, manifestDigest)).toEqual(files);
    });
  });

  describe("binding", () => {
    it("is permanent: another cluster is rejected and gets no data", async () => {
      await publish(s, ref, files);
      expect(await s.store.owner()).toBeUndefined();
      await s.store.bind("cluster-a");
      await s.store.bind("cluster-a");
      expect(await s.store.owner()).toBe("cluster-a");
      const { store } = s;
      const foreign = boundStore(store, "cluster-b");
      const refused = { code: "StoreOfAnotherCluster", message: expect.stringContaining("cluster-a") as string };
      const livenessOf = () => Promise.resolve("absent" as const);
      const uses = [
        () => store.bind("cluster-b"),
        () => foreign.grantWrite({ ...other, ttlMilliseconds }),
        () => foreign.grantRead({ ...ref, manifestDigest: `sha256:${"0".repeat(64)}`, ttlMilliseconds }),
        () => foreign.find(ref),
        () => foreign.remove(ref),
        () => foreign.sweep({ livenessOf, olderThanMilliseconds: 0 }),
        () => foreign.scrub(),
      ];
      for (const use of uses) await expect(use()).rejects.toMatchObject(refused);
      expect((await foreign.probe()).problem).toMatchObject(refused);
      expect(await boundStore(store, "cluster-a").find(ref)).toBeDefined();
      const swept = await boundStore(store, "cluster-a").sweep({
        livenessOf: () => Promise.resolve("finished"),
        olderThanMilliseconds: 0,
      });
      expect(swept).toMatchObject({ removedCheckpoints: [], foreign: [] });
    });

    it("succeeds for only one of several concurrent clusters", async () => {
      const clusters = ["a", "b", "c", "d"];
      const outcomes = await Promise.allSettled(clusters.map((cluster) => s.store.bind(cluster)));
      const bound = clusters.filter((_, index) => outcomes[index]?.status === "fulfilled");
      expect(bound).toEqual([await s.store.owner()]);
    });
  });

  describe("scrubbing", () => {
    it("reports its progress and finds all namespaces", async () => {
      await publish(s, ref, files);
      await publish(s, { namespace: "team-b", checkpointId: "b" }, { "only.img": "data" });
      expect(await s.store.namespaces()).toEqual(["team-a", "team-b"]);
      const progress: [number, string][] = [];
      await s.store.scrub({ onProgress: ({ bytes, file }) => progress.push([bytes, file]) });
      expect(progress.map(([bytes]) => bytes)).toEqual(progress.map(([bytes]) => bytes).toSorted((a, b) => a - b));
      expect(progress.map(([, file]) => file).sort()).toEqual([
        "checkpoint.img",
        "only.img",
        "pages.img",
        "pages_meta.img",
      ]);
    });

    it("finds no damage in published content and reads shared content once", async () => {
      await publish(s, ref, files);
      await publish(s, other, files);
      const bytes = s.traits.sharesContent ? 300_012 : 2 * 300_012;
      expect(await s.store.scrub()).toEqual({ checkpoints: 2, bytes, damaged: [] });
      expect(await s.store.scrub({ namespace: "team-b" })).toMatchObject({ checkpoints: 0 });
    });

    it("reports damaged content, which new content replaces", async () => {
      await publish(s, ref, files);
      await s.damage(ref, "pages.img");
      expect((await s.store.scrub()).damaged).toMatchObject([{ ...ref, file: "pages.img" }]);
      const { manifestDigest } = await publish(s, other, files);
      expect(await restore(s, other, manifestDigest)).toEqual(files);
      expect((await s.store.scrub()).damaged).toMatchObject([{ ...ref, file: "pages.img" }]);
    });
  });
}
