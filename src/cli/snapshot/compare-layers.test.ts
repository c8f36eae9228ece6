import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { create } from "tar";
import { afterEach, beforeEach, expect, it } from "vitest";
import { publish } from "../../../test/contract/store/harness.ts";
import { comparedVersion } from "../../../test/setup/compared-version.ts";
import { tarArchive, type TarEntryText, tarRecord } from "../../../test/setup/tar-archive.ts";
import type { LayerRef } from "../../api/wire/grant.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { directoryStore } from "../../store/directory/store.ts";
import { compareLayers } from "./compare-layers.ts";
import { filesIn, layerLimits } from "./layer-files.ts";

let directory: string;
let store: CheckpointStore;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-layers-"));
  const root = join(directory, "store");
  await mkdir(root);
  store = directoryStore({ root });
});
afterEach(() => rm(directory, { recursive: true, force: true }));

type Files = Record<string, string>;

/** An archive as the guest writes it: a file whose name begins with `.wh.` deletes another one. */
async function archiveOf(name: string, files: Files): Promise<Buffer> {
  const root = join(directory, name);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(join(root, dirname(path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  const paths = Object.keys(files).flatMap((path) => [...parentsOf(path), path]);
  await create({ cwd: root, file: `${root}.tar`, portable: true, noDirRecurse: true }, [...new Set(paths)]);
  return readFile(`${root}.tar`);
}

function parentsOf(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("/"));
}

async function layer(checkpointId: string, files: Files): Promise<LayerRef> {
  return layerOf(checkpointId, await archiveOf(checkpointId, files));
}

async function layerOf(checkpointId: string, archive: Buffer): Promise<LayerRef> {
  const { manifestDigest, sizeBytes } = await publish(
    { store },
    { namespace: "t", checkpointId },
    { "layer.tar": archive },
  );
  return { checkpointId, manifestDigest, sizeBytes };
}

const site = "usr/lib/python3/site-packages";
const metadata = (name: string) => `${site}/${name}.dist-info/METADATA`;
const paragraph = (name: string, version: string, status = "install ok installed") =>
  `Package: ${name}\nStatus: ${status}\nArchitecture: amd64\nVersion: ${version}\n`;
const dpkg = (...paragraphs: string[]) => ({ "var/lib/dpkg/status": paragraphs.join("\n") });
const npm = (name: string, version: string) => ({
  [`srv/node_modules/${name}/package.json`]: JSON.stringify({ name, version }),
});

function compare(old: LayerRef[], now: LayerRef[]) {
  const versions = [comparedVersion(6, {}, { layers: old }), comparedVersion(7, {}, { layers: now })] as const;
  return compareLayers(store, versions, new AbortController().signal);
}

it("lists the files that differ by layer, with the bytes of both versions, and does not read equal layers", async () => {
  const shared = { ...(await layer("shared", { "etc/a": "1" })), checkpointId: "gone" };
  const old = await layer("old", { "data/same": "s", "data/changed": "12", "data/removed": "1" });
  const now = await layer("now", { "etc/hosts": "a", "data/same": "s", "data/changed": "123456", "data/added": "123" });
  expect(await compare([shared, old], [shared, now])).toEqual({
    layers: [
      {
        layer: 2,
        files: 3,
        addedBytes: 9,
        removedBytes: 3,
        largest: [
          { path: "data/changed", change: "changed", fromBytes: 2, toBytes: 6 },
          { path: "data/added", change: "added", fromBytes: 0, toBytes: 3 },
          { path: "data/removed", change: "removed", fromBytes: 1, toBytes: 0 },
        ],
      },
    ],
    packages: [],
    notes: [],
  });
});

it("compares the packages of dpkg, pip and npm", async () => {
  const old = await layer("old", {
    ...dpkg(paragraph("curl", "8.1"), paragraph("gone", "1"), paragraph("half", "1", "deinstall ok config-files")),
    [metadata("numpy-2.0.0")]: "",
    ...npm("@scope/lib", "1.0.0"),
    ...npm("left-pad", "1.0.0"),
  });
  const now = await layer("now", {
    ...dpkg(paragraph("curl", "8.2")),
    [metadata("numpy-2.0.0")]: "",
    [metadata("pandas-2.3.0")]: "",
    [`${site}/.wh.pandas-2.2.0.dist-info`]: "",
    ...npm("@scope/lib", "1.1.0"),
  });
  const { packages, notes } = await compare([old], [now]);
  expect(notes).toEqual([]);
  expect(packages).toEqual([
    { kind: "dpkg", name: "curl:amd64", from: "8.1", to: "8.2" },
    { kind: "dpkg", name: "gone:amd64", from: "1", to: null },
    { kind: "npm", name: "@scope/lib", from: "1.0.0", to: "1.1.0" },
    { kind: "npm", name: "left-pad", from: "1.0.0", to: null },
    // The other version has it from its image.
    { kind: "pip", name: "pandas", from: "2.2.0", to: "2.3.0" },
  ]);
});

it("takes the list of dpkg from a layer that both share, and says when one version has only that of its image", async () => {
  const shared = await layer("shared", dpkg(paragraph("curl", "8.1")));
  const [plain, now] = [await layer("plain", { a: "" }), await layer("now", dpkg(paragraph("curl", "8.2")))];
  expect((await compare([shared, plain], [shared, now])).packages).toEqual([
    { kind: "dpkg", name: "curl:amd64", from: "8.1", to: "8.2" },
  ]);
  expect((await compare([plain], [now])).notes).toEqual([
    "packages of dpkg are not compared: one version has those of its image",
  ]);
});

it("compares the other layers if one is missing, and says which one it does not compare", async () => {
  const missing = { ...(await layer("missing", { a: "1" })), checkpointId: "removed" };
  const [first, second] = [await layer("first", { a: "1" }), await layer("second", { a: "2" })];
  const { layers, notes } = await compare([missing, first], [second, second]);
  expect(layers.map(({ layer: number }) => number)).toEqual([2]);
  expect(notes).toEqual([
    expect.stringMatching(/^layer removed is not compared: /) as string,
    "packages are not compared, because a layer is not",
  ]);
});

it("compares what sandboxes have, however their files are spread over layers", async () => {
  const one = await layer("one", { a: "1", b: "12", "d/c": "123", "d/e": "1" });
  const [first, second] = [
    await layer("first", { a: "1", "d/e": "1", "d/c": "1" }),
    await layer("second", { b: "1", ".wh.d": "" }),
  ];
  const { layers } = await compare([one], [first, second]);
  expect(
    layers.map(({ layer: number, largest }) => [number, largest.map(({ path, change }) => `${change} ${path}`)]),
  ).toEqual([
    [1, ["removed d/c", "removed d/e"]],
    [2, ["changed b", "removed d"]],
  ]);
});

const changesIn = ({ layers }: Awaited<ReturnType<typeof compare>>) =>
  layers.flatMap(({ largest }) => largest.map(({ path, change, deletion }) => [change, path, deletion ?? false]));

it("lists what a layer deletes from a lower layer or the image", async () => {
  const base = await layer("base", { "usr/a": "1" });
  const [old, now] = [await layer("old", { "etc/b": "1" }), await layer("now", { "usr/.wh.a": "", "etc/b": "1" })];
  expect(changesIn(await compare([base, old], [base, now]))).toEqual([["removed", "usr/a", true]]);
  expect(changesIn(await compare([base, now], [base, old]))).toEqual([["added", "usr/a", true]]);
  // A directory that is deleted and made again has nothing of the image.
  const again = [await layer("gone", { ".wh.usr": "" }), await layer("again", { "usr/c": "1" })];
  expect(changesIn(await compare([old], again))).toEqual([
    ["removed", "etc/b", false],
    ["removed", "usr", true],
    ["added", "usr/c", false],
  ]);
});

it("keeps nothing below a file that replaces a directory, nor a file that a directory replaces", async () => {
  const below = { [metadata("numpy-2.0.0")]: "", ...npm("left-pad", "1.0.0"), "opt/a": "1" };
  const files = await layer("files", { [site]: "12", "srv/node_modules": "1", "opt/a/b": "123" });
  const [old, now] = [await layer("old", below), await layer("now", { ...below, z: "1" })];
  const compared = await compare([old], [now, files]);
  expect(changesIn(compared).map(([change, path]) => `${change} ${path}`)).toEqual([
    "removed srv/node_modules/left-pad/package.json",
    "removed opt/a",
    "added z",
    `removed ${metadata("numpy-2.0.0")}`,
    "added opt/a/b",
    `added ${site}`,
    "added srv/node_modules",
  ]);
  expect(compared.packages).toEqual([
    { kind: "npm", name: "left-pad", from: "1.0.0", to: null },
    { kind: "pip", name: "numpy", from: "2.0.0", to: null },
  ]);
});

it("takes dpkg's list as deleted if a layer deletes a directory above it", async () => {
  const old = await layer("old", dpkg(paragraph("curl", "8.1")));
  const { packages, notes } = await compare([old], [old, await layer("now", { "var/.wh.lib": "" })]);
  expect([packages, notes]).toEqual([[{ kind: "dpkg", name: "curl:amd64", from: "8.1", to: null }], []]);
});

const at = (name: string, entry: Partial<TarEntryText> = {}) => ({ name, ...entry });
const directoryAt = (name: string) => at(name, { type: "5" });

it("compares names that are not UTF-8, and extended attributes", async () => {
  const attribute = (value: string) => [tarRecord("SCHILY.xattr.user.a", value)];
  const named = (name: string) => at("bin/a", { records: [tarRecord("path", name)], content: "x" });
  const old = tarArchive(directoryAt("bin"), at("bin/a"), named("bin/a\xfe"), at("b", { records: attribute("1") }));
  const hidden = "\n24 path=usr/bin/python3\n";
  const now = tarArchive(directoryAt("bin"), at("bin/a"), named("bin/a\xff"), at("b", { records: attribute(hidden) }));
  expect(changesIn(await compare([await layerOf("old", old)], [await layerOf("now", now)]))).toEqual([
    ["removed", "bin/a\\xfe", false],
    ["added", "bin/a\\xff", false],
    ["changed", "b", false],
  ]);
});

it("limits the entries and the bytes of names", async () => {
  const read = (archive: Buffer, limits: object) => filesIn(Readable.from([archive]), { ...layerLimits, ...limits });
  const archive = tarArchive(directoryAt("abcd"), at("abcd/efgh"), at("abcd/.wh.i"));
  expect((await read(archive, {})).textBytes).toBe(19);
  await expect(read(archive, { textBytes: 18 })).rejects.toMatchObject({ code: "CheckpointTooLarge" });
  const long = tarArchive(at("a", { records: [tarRecord("path", "a".repeat(5000))] }));
  await expect(read(long, {})).rejects.toThrow("a path has more than 4096 bytes");
  await expect(read(archive, { entries: 2 })).rejects.toMatchObject({ code: "CheckpointTooLarge" });
});

it.each([
  ["a path twice", [at("a"), at("a")]],
  ["a path that it also deletes", [at("a"), at(".wh.a")]],
  ["a directory twice", [directoryAt("a"), directoryAt("a/")]],
  ["a file in no directory", [at("a/b")]],
  ["a file below a file", [at("a"), at("a/b")]],
  ["a path outside", [directoryAt(".."), at("../a")]],
  ["a second name of a path", [directoryAt("a"), at("a/./b")]],
  ["a deletion of a deletion", [at(".wh..wh.a")]],
  ["a deletion that is a directory", [directoryAt(".wh.a")]],
])("refuses a layer with %s", async (_, entries) => {
  const archive = tarArchive(...entries);
  await expect(filesIn(Readable.from([archive]))).rejects.toMatchObject({ code: "InvalidArgument" });
});

it("reads a list of dpkg with long lines in a moment", async () => {
  const lines = `Package:${" ".repeat(1000)}\n`.repeat(4000);
  const text = `${lines}\n${paragraph("curl", "8.1")}`;
  const archive = tarArchive(
    ...["var", "var/lib", "var/lib/dpkg"].map(directoryAt),
    at("var/lib/dpkg/status", { content: text }),
  );
  const { entries } = await filesIn(Readable.from([archive]));
  expect([...(entries.get("var/lib/dpkg/status")?.dpkg ?? [])]).toEqual([["curl:amd64", "8.1"]]);
});

it("says that an encrypted layer cannot be compared", async () => {
  const envelope = { algorithm: "AES-256-GCM" as const, secret: "keys", key: "first", wrapped: "AAAA" };
  const files = { "layer.tar": await archiveOf("sealed", { a: "1" }) };
  const at = { namespace: "t", checkpointId: "sealed" };
  const { manifestDigest, sizeBytes } = await publish({ store }, at, files, { encryption: envelope });
  const { notes } = await compare([{ checkpointId: "sealed", manifestDigest, sizeBytes }], []);
  expect(notes[0]).toMatch(/^layer sealed is not compared: .*encrypted with the key first/);
});

it("says what is only in the memory of a version", async () => {
  const version = comparedVersion(1, {}, { contents: ["memory", "filesystem"] });
  const { notes } = await compareLayers(store, [version, version], new AbortController().signal);
  expect(notes).toEqual([expect.stringContaining("are in the memory: not compared")]);
});

it("refuses a layer that is compressed, damaged, too large or too deep, and ignores packages that it cannot read", async () => {
  const read = (archive: Buffer, limits?: Parameters<typeof filesIn>[1]) => filesIn(Readable.from([archive]), limits);
  const archive = await archiveOf("good", { "srv/node_modules/a/package.json": "{", "var/lib/dpkg/status": "\0:" });
  const { entries } = await read(archive);
  expect([...entries.keys()].sort()).toEqual(["srv/node_modules/a/package.json", "var/lib/dpkg/status"]);
  expect([...entries.values()].some(({ npm: found }) => found !== undefined)).toBe(false);
  expect(entries.get("var/lib/dpkg/status")?.dpkg?.size).toBe(0);
  await expect(read(gzipSync(archive))).rejects.toMatchObject({ code: "InvalidArgument" });
  const damaged = Buffer.from(archive);
  damaged[10] = 0xff;
  await expect(read(damaged)).rejects.toMatchObject({ code: "InvalidArgument" });
  await expect(read(archive, { ...layerLimits, bytes: 100 })).rejects.toMatchObject({ code: "CheckpointTooLarge" });
  const deep = await archiveOf("deep", { [`${"d/".repeat(70)}a`]: "" });
  await expect(read(deep)).rejects.toMatchObject({ code: "CheckpointTooLarge" });
});
