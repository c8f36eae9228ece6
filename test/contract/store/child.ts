/**
 * A separate process that acts as a cell or a controller, so that tests can kill it: `node child.ts '<Order>'`. At the requested
 * occurrence of the requested step, it prints `at <step>` and waits forever. Otherwise it prints the outcome as a line of JSON.
 */
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { storeAt } from "../../../src/store/store-at.ts";
import { openForRead, openForWrite } from "../../../src/store/open.ts";
import { storeError } from "../../../src/store/store-error.ts";
import { RametError } from "../../../src/base/errors.ts";
import { draft } from "./draft.ts";
import { namespace, type Order } from "./order.ts";
import { imageOf, shiftedClock, writeFiles } from "./harness.ts";

async function main(order: Order): Promise<unknown> {
  let times = 0;
  const onStep = async (step: string) => {
    if (step === order.fillAt) await fill(join(order.root, "ballast"));
    if (step !== order.stopAt?.step || ++times < order.stopAt.time) return;
    process.stdout.write(`at ${step}\n`);
    // A pending promise alone does not keep a process alive.
    setInterval(() => undefined, 1 << 30);
    await new Promise(() => undefined);
  };
  const clock = shiftedClock(() => order.later ?? 0);
  const store =
    order.place === undefined
      ? directoryStore({ root: order.root, onStep, minimumFreeBytes: 64 << 10 })
      : await storeAt(order.place, { onStep, clock });
  const ref = { namespace, checkpointId: order.checkpointId };
  switch (order.operation) {
    case "publish": {
      const session = await openForWrite(await store.grantWrite({ ...ref, ttlMilliseconds: 60_000 }), {
        onStep,
        scratchPath: order.root,
      });
      try {
        await writeFiles(session.stagingPath, order.files).catch((error: unknown) => {
          throw storeError(error, "writing the image");
        });
        return await session.publish(draft());
      } finally {
        await session.abandon();
      }
    }
    case "restore-read-only": {
      const manifestDigest = (await store.find(ref))?.manifestDigest ?? "";
      const view = directoryStore({ root: order.root, cellPath: () => join(order.root, "view") });
      const grant = await view.grantRead({ ...ref, manifestDigest, ttlMilliseconds: 60_000 });
      const session = await openForRead(grant, { scratchPath: join(order.root, "scratch") });
      const { removed } = await store.remove(ref);
      const image = await imageOf(session);
      await session.release();
      return { removed, image };
    }
    case "remove":
      return store.remove(ref);
    case "sweep":
      return store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: -60_000 });
    case "probe": {
      const { problem } = await store.probe();
      if (problem !== undefined) throw problem;
      return { ok: true };
    }
  }
}

async function fill(path: string): Promise<void> {
  for (;;) {
    try {
      await appendFile(path, Buffer.alloc(4096));
    } catch {
      return;
    }
  }
}

try {
  const outcome = await main(JSON.parse(process.argv[2] ?? "{}") as Order);
  process.stdout.write(`${JSON.stringify(outcome)}\n`);
} catch (error) {
  const { code, message, hint } = RametError.from(error);
  process.stdout.write(`${JSON.stringify({ error: { code, message, hint } })}\n`);
}
