import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { ContainerSpec } from "../../../src/api/cell.ts";
import { cellBackend, type CellBackend } from "../../../src/backends/cell.ts";
import { cellCredentials, newCellCredentials } from "../../../src/backends/cell-credentials.ts";
import type { SandboxTarget } from "../../../src/backends/backend.ts";
import { directoryStore } from "../../../src/store/directory/store.ts";
import { testBackend } from "./backend-contract.ts";
import { StandInCell } from "./stand-in-cell.ts";

/** The cell backend with a real store and stand-in cells; test/cluster/controllers.test.ts has it with real ones. */
let root = "";
let backend: CellBackend;
const cells = new Map<string, StandInCell>();
const credentials = cellCredentials(newCellCredentials());

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "ramet-"));
  backend = cellBackend({ credentials, store: directoryStore({ root }) });
});
afterAll(async () => {
  backend.close();
  await Promise.all([...cells.values()].map((cell) => cell.close()));
  await rm(root, { recursive: true, force: true });
});

async function newCell(start: "boot" | "wait"): Promise<SandboxTarget> {
  const number = cells.size + 1;
  const target = { sandboxUid: `uid-${number}`, ip: `127.68.${(process.pid % 250) + 1}.${number}` };
  const config = {
    sandbox: { namespace: "contract", name: `s${number}`, uid: target.sandboxUid },
    container: ContainerSpec.parse({ name: "main", image: "python" }),
    publicKey: credentials.publicKey,
    templateDigest: `sha256:${"0".repeat(64)}`,
    start,
  };
  const cell = new StandInCell(config, target.ip);
  await cell.listen();
  cells.set(target.sandboxUid, cell);
  return target;
}

testBackend(() => ({
  backend,
  source: async () => {
    const target = await newCell("boot");
    await backend.boot(target, { sandboxId: "contract--s", hostname: "s", accessToken: "t", environment: {} });
    return target;
  },
  target: () => newCell("wait"),
  isRunning: ({ sandboxUid }) => Promise.resolve(cells.get(sandboxUid)?.state.ready ?? false),
}));
