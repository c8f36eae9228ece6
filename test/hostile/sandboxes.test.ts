import { readdir } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells } from "../setup/cells.ts";
import { cellPid } from "./processes.ts";

/** Programs in a sandbox that take whatever they get, and clones that compare what they can read. */
let cells: Cells;
let source: RunningCell;

const container = { command: ["sleep", "infinity"] };

beforeAll(async () => {
  cells = await Cells.open();
  source = await cells.boot({ name: "source", container });
});
afterAll(() => cells.close());

const python = (cell: RunningCell, script: string): Promise<string> => cells.output(cell, `python3 -c '${script}'`);

it("keeps the files of a sandbox with very many of them in few files of the machine", async () => {
  const before = await readdir(source.directory, { recursive: true });
  expect(
    await python(
      source,
      `import os\nos.mkdir("/many")\nfor i in range(3000): open(f"/many/{i}", "w").close()\nprint(1)`,
    ),
  ).toBe("1");
  const after = await readdir(source.directory, { recursive: true });
  expect(after.length).toBeLessThan(before.length + 10);
  expect(await python(source, `import shutil\nshutil.rmtree("/many")\nprint(1)`)).toBe("1");
});

it("keeps the sockets of a sandbox out of its cell", async () => {
  const pid = await cellPid(source);
  const descriptors = async (): Promise<number> => (await readdir(`/proc/${pid}/fd`)).length;
  const before = await descriptors();
  const held = await python(
    source,
    `import socket\nheld = []\ntry:\n  while len(held) < 5000: held.append(socket.socket())\nexcept OSError: pass\nprint(len(held))`,
  );
  expect(Number(held)).toBeGreaterThan(500);
  expect(await descriptors()).toBeLessThan(before + 20);
  expect(await cells.client.state(source.address)).toMatchObject({ phase: "running", ready: true });
});

/** Prints everything by which a program can tell its sandbox from another, as JSON. */
const identities = `
import json, os, socket, uuid
def read(path):
  try: return open(path).read().strip()
  except OSError as error: return error.strerror
print(json.dumps({
  "host name": socket.gethostname(),
  "hosts": read("/etc/hosts"),
  "identity": read("/run/ramet/identity.json"),
  "random": os.urandom(16).hex(),
  "random UUID": str(uuid.uuid4()),
  "UUID of the kernel": read("/proc/sys/kernel/random/uuid"),
  "boot ID": read("/proc/sys/kernel/random/boot_id"),
  "machine ID": read("/etc/machine-id"),
  "hardware address": read("/sys/class/net/eth0/address"),
}))
`;
/** The values that are equal in a clone, as docs/security.md says: gVisor has no such file, or keeps it in the memory that is cloned. */
const shared = ["boot ID", "machine ID", "hardware address"];

it("gives clones and their source different identities and random numbers", async () => {
  const { manifestDigest } = await cells.checkpoint(source, "compared");
  const clones = ["one", "other"].map((name) =>
    cells.clone({ name, container }, { checkpointId: "compared", manifestDigest }),
  );
  const seen = await Promise.all(
    [source, ...(await Promise.all(clones))].map(
      async (cell) => JSON.parse(await python(cell, identities)) as Record<string, string>,
    ),
  );
  const names = Object.keys(seen[0] ?? {});
  expect(names.filter((name) => new Set(seen.map((each) => each[name])).size < seen.length)).toEqual(shared);
});
