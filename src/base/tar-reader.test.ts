import { expect, it } from "vitest";
import { tarArchive, type TarEntryText, tarMeta, tarRecord } from "../../test/setup/tar-archive.ts";
import { shownName, type TarEntry, TarReader } from "./tar-reader.ts";

interface Read {
  path: string;
  content: string;
}

function read(archive: Buffer, chunkBytes = archive.length): (Read & TarEntry)[] {
  const entries: (Read & TarEntry)[] = [];
  const onEntry = (entry: TarEntry) => {
    const found = { ...entry, content: "" };
    entries.push(found);
    return { add: (part: Buffer) => void (found.content += part.toString("latin1")), end: () => undefined };
  };
  const reader = new TarReader({ onEntry, refuse: (why) => new Error(why), mostHeaderBytes: 1024 });
  for (let at = 0; at < archive.length; at += chunkBytes) reader.write(archive.subarray(at, at + chunkBytes));
  reader.end();
  return entries;
}

const names = (archive: Buffer, chunkBytes?: number) =>
  read(archive, chunkBytes).map(({ path, content }) => [path, content]);

it("reads names that are not UTF-8, and names of several bytes in chunks of any size", () => {
  const euro = Buffer.from("d/€").toString("latin1");
  const archive = tarArchive(
    { name: "usr/bin/python3", content: "a" },
    { name: "usr/bin/python3", records: [tarRecord("path", "usr/bin/python3\xff")], content: "b" },
    { name: "d/_", records: [tarRecord("path", euro)], content: "c" },
    { ...tarMeta("L", "long\0"), magic: "ustar  \0" },
    { name: "lo", magic: "ustar  \0", content: "d".repeat(600) },
  );
  for (const size of [1, 511, 512, 513, archive.length])
    expect(names(archive, size)).toEqual([
      ["usr/bin/python3", "a"],
      ["usr/bin/python3\xff", "b"],
      [euro, "c"],
      ["long", "d".repeat(600)],
    ]);
  expect(["usr/bin/python3\xff", euro].map(shownName)).toEqual(["usr/bin/python3\\xff", "d/€"]);
});

it("reads an extended attribute whose value looks like records as one value", () => {
  const value = "a\n24 path=usr/bin/python3\n12 size=900\n";
  const [entry, ...more] = read(
    tarArchive({ name: "data/a", records: [tarRecord("SCHILY.xattr.user.a", value)], content: "x" }),
  );
  expect(more).toEqual([]);
  expect(entry).toMatchObject({ path: "data/a", shortPath: "data/a", sizeBytes: 1, content: "x" });
  expect([...(entry?.records ?? [])]).toEqual([["SCHILY.xattr.user.a", value]]);
});

it.each([
  ["a wrong checksum", [{ name: "a", change: [[0, 0x62]] }], "wrong checksum"],
  ["a negative size", [{ name: "a", size: "\xff".repeat(12) }], "a number that is not valid"],
  ["a size that is not octal", [{ name: "a", size: "-0000000001" }], "a number that is not valid"],
  ["a size that no number holds", [{ name: "a", size: `\x80${"\xff".repeat(11)}` }], "a number that is not valid"],
  ["a link with content", [{ name: "a", type: "2", size: "00000001000" }], "an impossible size"],
  ["two sizes", [{ name: "a", records: [tarRecord("size", "512")] }], "an impossible size"],
  ["a negative size in a record", [{ name: "a", records: [tarRecord("size", "-1")] }], "an invalid record size"],
  ["a record that is too long", [{ name: "a", records: ["99 path=b\n"] }], "a record that is not valid"],
  ["a record without an end", [{ name: "a", records: ["9 path=b "] }], "a record that is not valid"],
  ["a record without a name", [{ name: "a", records: ["5 =b\n"] }], "a record that is not valid"],
  ["two paths", [{ name: "a", records: [tarRecord("path", "b"), tarRecord("path", "c")] }], "an invalid record path"],
  ["a path with a zero", [{ name: "a", records: [tarRecord("path", "b\0c")] }], "an invalid record path"],
  ["a sparse file", [{ name: "a", records: [tarRecord("GNU.sparse.name", "b")] }], "an invalid record GNU.sparse.name"],
  [
    "two headers",
    [tarMeta("x", tarRecord("path", "b")), { name: "a", records: [tarRecord("path", "c")] }],
    "two headers",
  ],
  ["two formats", [tarMeta("L", "b\0"), { name: "a", records: [tarRecord("path", "c")] }], "headers of two formats"],
  ["a global header with a name", [tarMeta("g", tarRecord("path", "b")), { name: "a" }], "a global header"],
  ["a large header", [tarMeta("L", "b".repeat(1025)), { name: "a" }], "a header that is too large"],
  ["an unknown type", [{ name: "a", type: "S" }], 'the type "S"'],
  ["a file that is named like a directory", [{ name: "a/" }], "not the name of a file"],
  ["another format", [{ name: "a", magic: "\0".repeat(8) }], "its format is not tar"],
  ["fields of another format", [{ name: "a", magic: "ustar  \0", prefix: "b" }], "unknown fields"],
  ["a header without an entry", [tarMeta("x", tarRecord("path", "b"))], "it is cut"],
] as [string, TarEntryText[], string][])("refuses %s", (_, entries, message) => {
  expect(() => read(tarArchive(...entries))).toThrow(message);
});

it("refuses an archive that is cut or has data after its end, and ignores the comment of Git", () => {
  const archive = tarArchive({ name: "a", content: "x" });
  expect(() => read(archive.subarray(0, 600))).toThrow("it is cut");
  expect(() => read(Buffer.concat([archive, archive]))).toThrow("data after its end");
  const commented = tarArchive(tarMeta("g", tarRecord("comment", "b")), { name: "a", prefix: "p", content: "x" });
  expect(names(commented)).toEqual([["p/a", "x"]]);
});
