import fc from "fast-check";
import { create, Header, type HeaderData } from "tar";
import { mkdtempSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tarArchive, type TarEntryText, tarMeta, tarRecord } from "../../../test/setup/tar-archive.ts";
import { TreeCheck } from "./tree-check.ts";

function check(archive: Buffer, limits?: { bytes: number; entries: number }, size = 700): void {
  const checked = new TreeCheck(limits);
  for (let at = 0; at < archive.length; at += size) checked.add(archive.subarray(at, at + size));
  checked.end();
}

/** An archive with these entries, which tar itself would not write. */
function archive(...entries: HeaderData[]): Buffer {
  const blocks = entries.map((entry) => {
    const block = Buffer.alloc(512);
    new Header({ mode: 0o644, size: 0, mtime: new Date(0), ...entry }).encode(block);
    return block;
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

it("accepts what tar writes, in chunks of any size", async () => {
  const directory = mkdtempSync(join(tmpdir(), "ramet-tree-"));
  try {
    mkdirSync(join(directory, "a/b"), { recursive: true });
    writeFileSync(join(directory, "a/b/file"), "x".repeat(5000));
    writeFileSync(join(directory, `a/${"long".repeat(60)}`), "y");
    symlinkSync("/etc/passwd", join(directory, "a/link"));
    const chunks: Buffer[] = [];
    for await (const chunk of create({ cwd: directory }, ["a"])) chunks.push(chunk);
    const whole = Buffer.concat(chunks);
    for (const size of [1, 511, 512, 513, whole.length]) check(whole, undefined, size);
    expect(() => {
      check(whole, { bytes: 5000, entries: 100 });
    }).toThrow("it is larger than 5000 bytes");
    expect(() => {
      check(whole, { bytes: 100_000, entries: 3 });
    }).toThrow("it has more than 3 entries");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

const outside = [tarRecord("path", "../b")];
const plain = [tarRecord("path", "b")];
const longLink = [tarRecord("linkpath", "b")];

it.each([
  ["a name in a record", [{ name: "a", records: outside }], "outside of the directory"],
  ["the name of an entry with records", [{ name: "../a", records: plain }], "outside of the directory"],
  [
    "a link in a header with records",
    [{ name: "a", type: "1", linkName: "../b", records: longLink }],
    "links to a file outside",
  ],
  ["a long name", [{ ...tarMeta("L", "../b\0"), magic: "ustar  \0" }, { name: "a" }], "outside of the directory"],
  [
    "a file below a link whose name is not UTF-8",
    [
      { name: "a\xff", type: "2", linkName: "/etc" },
      { name: "a\xff/passwd", records: [tarRecord("path", "a\xff/passwd")] },
    ],
    "is below a symbolic link",
  ],
  [
    "a file below a link that only a header without its records names",
    [{ name: "a", type: "2", linkName: "/etc", records: plain }, { name: "a/passwd" }],
    "is below a symbolic link",
  ],
  [
    "a file below a hard link to a symbolic link",
    [{ name: "a", type: "2", linkName: "/etc" }, { name: "b", type: "1", linkName: "a" }, { name: "b/passwd" }],
    "is below a symbolic link",
  ],
  [
    "a size that a record changes",
    [{ name: "a", records: [tarRecord("size", "0")], content: "x" }],
    "an impossible size",
  ],
] as [string, TarEntryText[], string][])("refuses what another program could read in %s", (_, entries, message) => {
  expect(() => {
    check(tarArchive(...entries));
  }).toThrow(message);
});

it("accepts two names that differ in bytes that are not UTF-8, one of them a link", () => {
  check(tarArchive({ name: "a\xfe", type: "2", linkName: "/etc" }, { name: "a\xff", type: "5" }, { name: "a\xff/b" }));
});

it("refuses an archive that is cut inside of a header", () => {
  const whole = archive({ path: "a" }, { path: "b" });
  expect(() => {
    check(whole.subarray(0, 512 + 100));
  }).toThrow("it is cut");
});

it.each([
  ["a parent directory", [{ path: "a/../../b" }], "outside of the directory"],
  ["an absolute path", [{ path: "/etc/passwd" }], "outside of the directory"],
  ["a device", [{ path: "a", type: "CharacterDevice" }], "neither a file, a directory nor a link"],
  ["a pipe", [{ path: "a", type: "FIFO" }], "neither a file, a directory nor a link"],
  ["a hard link to the outside", [{ path: "a", type: "Link", linkpath: "../b" }], "outside of the directory"],
  [
    "a file below a link",
    [{ path: "a", type: "SymbolicLink", linkpath: "/etc" }, { path: "./a/passwd" }],
    "is below a symbolic link",
  ],
  [
    "a hard link through a link",
    [
      { path: "a", type: "SymbolicLink", linkpath: "/etc" },
      { path: "b", type: "Link", linkpath: "a/passwd" },
    ],
    "is below a symbolic link",
  ],
] as [string, HeaderData[], string][])("refuses %s", (_, entries, message) => {
  expect(() => {
    check(archive({ path: "first" }, ...entries));
  }).toThrow(message);
});

it.each([
  ["nothing", Buffer.alloc(0)],
  ["zeros", Buffer.alloc(2048)],
  ["less than a block", Buffer.from("x")],
  ["gzip", Buffer.from([0x1f, 0x8b, ...new Array<number>(1000).fill(0)])],
])("refuses %s", (_, bytes) => {
  expect(() => {
    check(bytes);
  }).toThrow("its format is not tar");
});

it("throws nothing but its own error for damaged archives", () => {
  const whole = archive({ path: "a" }, { path: "b", type: "SymbolicLink", linkpath: "a" }, { path: "c", size: 100 });
  const changes = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(changes, fc.nat(whole.length), (changed, length) => {
      const damaged = Buffer.from(whole.subarray(0, length));
      for (const [at, value] of changed) if (at < damaged.length) damaged[at] = value;
      try {
        check(damaged);
      } catch (error) {
        expect(error).toMatchObject({ code: "InvalidArgument" });
      }
    }),
  );
});
