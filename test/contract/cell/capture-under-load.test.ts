import { afterAll, beforeAll, expect, it } from "vitest";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells } from "../../setup/cells.ts";

/**
 * Writes a block past the page cache, and then inserts rows into two databases, with a rollback journal and with a write-ahead log, one
 * transaction each.
 */
const writer = `import hashlib, mmap, os, sqlite3
direct = os.open("/direct", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
block = mmap.mmap(-1, 4096)
bases = []
for mode in ("DELETE", "WAL"):
  base = sqlite3.connect(f"/{mode}.db", isolation_level=None)
  base.execute(f"PRAGMA journal_mode={mode}")
  base.execute("PRAGMA synchronous=FULL")
  base.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, text TEXT, digest TEXT)")
  bases.append(base)
n = 0
while True:
  n += 1
  text = str(n) * 500
  data = str(n).encode().ljust(4032)
  block[:] = data + hashlib.sha256(data).hexdigest().encode()
  os.pwrite(direct, block, n % 64 * 4096)
  for base in bases:
    base.execute("BEGIN")
    base.execute("INSERT INTO rows VALUES (?, ?, ?)", (n, text, hashlib.sha256(text.encode()).hexdigest()))
    base.execute("DELETE FROM rows WHERE n = ? AND n % 3 = 0", (n - 100,))
    base.execute("COMMIT")`;

/** Prints the last row of each database, and the last block, or what is wrong with them. */
const reader = `import hashlib, sqlite3
for mode in ("DELETE", "WAL"):
  base = sqlite3.connect(f"/{mode}.db", timeout=60)
  problems = [row[0] for row in base.execute("PRAGMA integrity_check") if row[0] != "ok"]
  for n, text, digest in base.execute("SELECT n, text, digest FROM rows"):
    if hashlib.sha256(text.encode()).hexdigest() != digest: problems.append(f"row {n}")
  print(problems or base.execute("SELECT max(n) FROM rows").fetchone()[0])
blocks = open("/direct", "rb").read()
last = 0
for at in range(0, len(blocks), 4096):
  data, digest = blocks[at:at + 4032], blocks[at + 4032:at + 4096]
  if not data.strip(b"\\0"): continue
  if hashlib.sha256(data).hexdigest().encode() != digest: last = f"block {at}"; break
  last = max(last, int(data))
print(last)`;

let cells: Cells;

beforeAll(async () => {
  cells = await Cells.open();
});
afterAll(() => cells.close());

/** The last rows of both databases, and the last block. */
async function rows(cell: RunningCell): Promise<number[]> {
  return (await cells.python(cell, reader)).split("\n").map(Number);
}

it.each<[string, Contents, true?]>([
  ["files", ["filesystem"]],
  ["files-as-layer", ["filesystem"], true],
  ["memory-and-files", both],
])(
  "captures %s of a program that keeps writing, with databases that are consistent in each clone",
  async (kind, contents, asLayer) => {
    const container = { command: ["python3", "-c", writer] };
    const cell = await cells.boot({ name: kind, container });
    await expect.poll(async () => (await rows(cell)).every((count) => count > 0)).toBe(true);
    for (const round of [1, 2, 3]) {
      const before = await rows(cell);
      const checkpointId = `${kind}-${round}`;
      const { manifestDigest } = await cells.checkpoint(cell, checkpointId, { contents, ...(asLayer && { asLayer }) });
      const after = await rows(cell);
      // Files alone start under another template, whose program changes no database.
      const template = contents.length === 1 ? { command: ["sleep", "infinity"] } : container;
      const clone = await cells.clone(
        { name: `clone-${checkpointId}`, container: template },
        { checkpointId, manifestDigest, contents },
      );
      const captured = await rows(clone);
      for (const [at, count] of captured.entries()) expect(count).toBeGreaterThanOrEqual(before[at]!);
      // It was written before the rows.
      expect(captured[2]).toBeGreaterThanOrEqual(Math.max(...captured));
      if (contents.length === 1)
        for (const [at, count] of captured.entries()) expect(count).toBeLessThanOrEqual(after[at]!);
      await expect.poll(async () => (await rows(cell)).every((count, at) => count > after[at]!)).toBe(true);
      await cells.client.stop(clone.address, "done");
    }
    await cells.client.stop(cell.address, "done");
  },
);
