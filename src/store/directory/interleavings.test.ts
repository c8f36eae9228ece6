import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { draft } from "../../../test/contract/store/draft.ts";
import { imageOf, restore, writeFiles } from "../../../test/contract/store/harness.ts";
import { RametError, errnoOf } from "../../base/errors.ts";
import { openForRead, openForWrite } from "../open.ts";
import type { Step } from "../sessions.ts";
import { storeError } from "../store-error.ts";
import { directoryStore } from "./store.ts";

const namespace = "team-a";
const hour = 3_600_000;
const id = fc.constantFrom("a", "b", "c");
const page = fc.constantFrom("one", "two");

type Operation =
  | { do: "publish"; id: string; page: string }
  | { do: "remove"; id: string }
  | { do: "restore"; id: string }
  | { do: "sweep"; harsh: boolean };

const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.record({ do: fc.constant("publish" as const), id, page }),
  fc.record({ do: fc.constant("publish" as const), id, page }),
  fc.record({ do: fc.constant("remove" as const), id }),
  fc.record({ do: fc.constant("restore" as const), id }),
  fc.record({ do: fc.constant("sweep" as const), harsh: fc.boolean() }),
);

it("loses no published checkpoint in any interleaving of operations", { timeout: 120_000 }, async () => {
  const lanes = fc.array(fc.array(operation, { minLength: 1, maxLength: 5 }), { minLength: 2, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), lanes, async (scheduler, programs) => {
      const root = await mkdtemp(join(tmpdir(), "ramet-store-property-"));
      try {
        await scheduler.waitFor(
          checkInterleaving(root, programs, (name) => scheduler.schedule(Promise.resolve(), name)),
        );
      } finally {
        await rm(root, { recursive: true });
      }
    }),
    { numRuns: 60 },
  );
});

async function checkInterleaving(root: string, programs: Operation[][], onStep: Step): Promise<void> {
  const store = directoryStore({ root, onStep });
  /** The acknowledged publications by id. The start of a removal deletes the entry. */
  const acknowledged = new Map<string, { digest: string; page: string }>();
  const removals = new Map<string, number>();

  const operations = {
    publish: async ({ id, page }: { id: string; page: string }) => {
      const before = removals.get(id);
      const grant = await store.grantWrite({ namespace, checkpointId: id, ttlMilliseconds: hour });
      const session = await openForWrite(grant, { onStep });
      await writeFiles(session.stagingPath, { "pages.img": page, "checkpoint.img": "shared by all" });
      const { manifestDigest } = await session.publish(draft());
      if (removals.get(id) === before) acknowledged.set(id, { digest: manifestDigest, page });
    },
    remove: async ({ id }: { id: string }) => {
      removals.set(id, (removals.get(id) ?? 0) + 1);
      acknowledged.delete(id);
      await store.remove({ namespace, checkpointId: id });
    },
    restore: async ({ id }: { id: string }) => {
      const wanted = acknowledged.get(id);
      if (wanted === undefined) return;
      const request = { namespace, checkpointId: id, manifestDigest: wanted.digest, ttlMilliseconds: hour };
      const session = await openForRead(await store.grantRead(request), { onStep });
      expect(await imageOf(session)).toEqual({ "pages.img": wanted.page, "checkpoint.img": "shared by all" });
      // A removal also removes the fingerprints. A restore that already holds the files must then hash them.
      if (!removals.has(id)) expect(session.rehashed).toEqual([]);
      await session.release();
    },
    // A harsh sweep treats every attempt and restore in progress as an orphan. They may fail, but nothing may be lost.
    sweep: ({ harsh }: { harsh: boolean }) => sweep(harsh ? -hour : hour),
  };
  const sweep = async (olderThanMilliseconds: number) => {
    await store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds });
  };

  await Promise.all(
    programs.map(async (program) => {
      for (const each of program) {
        try {
          await operations[each.do](each as never);
        } catch (error) {
          // The test reads and writes files in place of gVisor, and a harsh sweep can remove its directory.
          mayFail(errnoOf(error) === undefined ? error : storeError(error, each.do), programs);
        }
      }
    }),
  );
  for (const [checkpointId, { digest, page }] of acknowledged) {
    const image = await restore({ store }, { namespace, checkpointId }, digest);
    expect(image).toEqual({ "pages.img": page, "checkpoint.img": "shared by all" });
  }
  expect((await store.scrub()).damaged).toEqual([]);
  await sweep(-hour);
  expect(await store.usage(namespace)).toMatchObject({ stagingBytes: 0 });
}

function mayFail(error: unknown, programs: Operation[][]): void {
  if (!(error instanceof RametError)) throw error;
  const harsh = programs.flat().some((each) => each.do === "sweep" && each.harsh);
  const expected = ["AlreadyExists", "CheckpointLost", ...(harsh ? ["StoreUnavailable", "InvalidArgument"] : [])];
  if (!expected.includes(error.code)) throw error;
}
