import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { create } from "tar";
import { afterEach, beforeEach, expect, it } from "vitest";
import { publish } from "../../../test/contract/store/harness.ts";
import { comparedVersion } from "../../../test/setup/compared-version.ts";
import type { LayerRef } from "../../api/wire/grant.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { directoryStore } from "../../store/directory/store.ts";
import { compareLayers } from "./compare-layers.ts";
import { filesIn } from "./layer-files.ts";

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
  await create({ cwd: root, file: `${root}.tar`, portable: true }, Object.keys(files));
  return readFile(`${root}.tar`);
}

async function layer(checkpointId: string, files: Files): Promise<LayerRef> {
  const archive = await archiveOf(checkpointId, files);
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
    [2, ["changed b"]],
  ]);
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
  const { entries, dpkg: list } = await read(archive);
  expect([...entries.keys()].sort()).toEqual(["srv/node_modules/a/package.json", "var/lib/dpkg/status"]);
  expect([[...entries.values()].some(({ npm: found }) => found !== undefined), list?.size]).toEqual([false, 0]);
  await expect(read(gzipSync(archive))).rejects.toMatchObject({ code: "InvalidArgument" });
  const damaged = Buffer.from(archive);
  damaged[10] = 0xff;
  await expect(read(damaged)).rejects.toMatchObject({ code: "InvalidArgument" });
  await expect(read(archive, { bytes: 100, entries: 10 })).rejects.toMatchObject({ code: "CheckpointTooLarge" });
  await expect(read(archive, { bytes: 1e6, entries: 1 })).rejects.toMatchObject({ code: "CheckpointTooLarge" });
  const deep = await archiveOf("deep", { [`${"d/".repeat(70)}a`]: "" });
  await expect(read(deep)).rejects.toMatchObject({ code: "CheckpointTooLarge" });
});
