import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { shiftedClock, type StoreUnderTest } from "../../../test/contract/store/harness.ts";
import { storeContract } from "../../../test/contract/store/store-contract.ts";
import { directoryStore } from "./store.ts";

async function makeStore(): Promise<StoreUnderTest> {
  const root = await mkdtemp(join(tmpdir(), "ramet-store-"));
  let offset = 0;
  const clock = shiftedClock(() => offset);
  return {
    store: directoryStore({ root, clock }),
    traits: { sharesContent: true, sweptPublication: "fails", filesStored: "sealed" },
    clock,
    advance: (milliseconds) => {
      offset += milliseconds;
    },
    damage: async ({ namespace, checkpointId }, file) => {
      const path = join(root, namespace, "checkpoints", checkpointId, "image", file);
      const bytes = await readFile(path);
      bytes[0] = bytes[0]! ^ 1;
      await chmod(path, 0o600);
      await writeFile(path, bytes);
    },
    dispose: () => rm(root, { recursive: true }),
  };
}

storeContract("directory", makeStore);
