import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterEach, beforeEach, expect, it } from "vitest";
import { runProgram } from "../tools/run-program.ts";
import { openImageStore, type ImageStore } from "./image-store.ts";

let dir: string;
let images: ImageStore;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "ramet-images-"));
  images = openImageStore({ dir: join(dir, "store") });
});
afterEach(() => rm(dir, { recursive: true, force: true }));

type Files = Record<string, string | { leadsTo: string }>;

/** A directory with these files; a name that ends in `/` is a directory. */
async function directory(name: string, files: Files): Promise<string> {
  const root = join(dir, name);
  await mkdir(root, { recursive: true });
  for (const [path, content] of Object.entries(files)) {
    const target = join(root, path);
    await mkdir(path.endsWith("/") ? target : dirname(target), { recursive: true });
    if (path.endsWith("/")) continue;
    if (typeof content === "string") await writeFile(target, content);
    else await symlink(content.leadsTo, target);
  }
  return root;
}

async function tar(name: string, files: Files): Promise<string> {
  const path = join(dir, `${name}.tar`);
  await runProgram("tar", ["-c", "-f", path, "-C", await directory(name, files), "."]);
  return path;
}

interface Layer {
  files: Files;
  compress?: "gzip" | "zstd";
}

/** An OCI image layout with these layers. */
async function layout(name: string, layers: Layer[], config: object = {}): Promise<string> {
  const root = join(dir, name);
  const blobs = join(root, "blobs", "sha256");
  await mkdir(blobs, { recursive: true });
  const blob = async (mediaType: string, content: Buffer): Promise<object> => {
    const digest = createHash("sha256").update(content).digest("hex");
    await writeFile(join(blobs, digest), content);
    return { mediaType, digest: `sha256:${digest}`, size: content.length };
  };
  const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));
  const described: object[] = [];
  for (const [index, { files, compress }] of layers.entries()) {
    const plain = await readFile(await tar(`${name}-layer-${index}`, files));
    const content = compress === "gzip" ? gzipSync(plain) : compress === "zstd" ? zstdCompressSync(plain) : plain;
    const suffix = compress === undefined ? "" : `+${compress}`;
    described.push(await blob(`application/vnd.oci.image.layer.v1.tar${suffix}`, content));
  }
  const configured = await blob("application/vnd.oci.image.config.v1+json", json({ os: "linux", config }));
  const manifest = await blob(
    "application/vnd.oci.image.manifest.v1+json",
    json({ config: configured, layers: described }),
  );
  await writeFile(join(root, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [manifest] }));
  await writeFile(join(root, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  return root;
}

/** The files below a directory; links are not followed. */
async function content(root: string, below = ""): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(join(root, below), { withFileTypes: true })) {
    const name = join(below, entry.name);
    if (entry.isDirectory()) Object.assign(found, await content(root, name));
    if (entry.isFile()) found[name] = await readFile(join(root, name), "utf8");
  }
  return found;
}

it("returns an added image by each spelling of its name after the store is reopened", async () => {
  const added = await images.add("python", await directory("root", { "bin/sh": "shell", "etc/x": "y" }), {
    config: { cmd: ["python3"] },
  });
  const again = openImageStore({ dir: join(dir, "store") });
  for (const name of ["python", "python:latest", "docker.io/library/python:latest"]) {
    expect(await again.get(name)).toMatchObject({ ...added, config: { cmd: ["python3"], workingDir: "/" } });
  }
  expect(await content(added.rootPath)).toEqual({ "bin/sh": "shell", "etc/x": "y" });
  expect((await again.list()).map(({ name }) => name)).toEqual(["python"]);
});

it("gives the same files the same digest in each format, and stores them once", async () => {
  const files = { "bin/sh": "shell", "lib/x": "y" };
  const plain = await tar("plain", files);
  await writeFile(join(dir, "packed.tar.gz"), gzipSync(await readFile(plain)));
  await writeFile(join(dir, "packed.tar.zst"), zstdCompressSync(await readFile(plain)));
  const paths = [join(dir, "plain"), plain, join(dir, "packed.tar.gz"), join(dir, "packed.tar.zst")];
  const digests = new Set<string>();
  for (const [index, path] of paths.entries()) digests.add((await images.add(`i${index}`, path)).digest);
  expect(digests.size).toBe(1);
  expect(await readdir(join(dir, "store", "roots"))).toHaveLength(1);
  const other = await images.add("other", await directory("other", { ...files, "lib/x": "z" }));
  expect(digests.has(other.digest)).toBe(false);
});

it("applies the layers of an OCI image in order, with their whiteouts", async () => {
  const path = await layout(
    "oci",
    [
      {
        files: {
          "a/one": "1",
          "a/two": "1",
          "b/old": "1",
          "usr/lib/base": "1",
          lib: { leadsTo: "usr/lib" },
          f: "file",
        },
      },
      {
        files: { "a/.wh.one": "", "a/two": "2", "b/.wh..wh..opq": "", "b/new": "2", "lib/added": "2" },
        compress: "gzip",
      },
      { files: { ".wh.f": "", "c/three": "3" }, compress: "zstd" },
    ],
    { Entrypoint: ["/init"], Cmd: ["serve"], Env: ["A=b"], WorkingDir: "/app", User: "1000:1000" },
  );
  const image = await images.add("registry.example/tools/app:1.2", path);
  expect(await content(image.rootPath)).toEqual({
    "a/two": "2",
    "b/new": "2",
    "c/three": "3",
    "usr/lib/added": "2",
    "usr/lib/base": "1",
  });
  expect(image.config).toEqual({
    entrypoint: ["/init"],
    cmd: ["serve"],
    env: ["A=b"],
    workingDir: "/app",
    user: "1000:1000",
  });
  const packed = join(dir, "oci.tar");
  await runProgram("tar", ["-c", "-f", packed, "-C", path, "."]);
  expect((await images.add("packed", packed)).digest).toBe(image.digest);
});

it("prevents a layer from writing outside the root through a link of an earlier layer", async () => {
  await directory("outside", { kept: "kept" });
  const path = await layout("evil", [
    { files: { escape: { leadsTo: join(dir, "outside") }, up: { leadsTo: "../../../../../../../../tmp" }, ok: "1" } },
    { files: { "escape/kept": "overwritten", "escape/planted": "x", "up/planted-by-ramet-test": "x" } },
    { files: { "escape/.wh.kept": "" } },
  ]);
  const image = await images.add("evil", path);
  expect(await content(join(dir, "outside"))).toEqual({ kept: "kept" });
  expect(await readdir("/tmp")).not.toContain("planted-by-ramet-test");
  expect(await readFile(join(image.rootPath, "ok"), "utf8")).toBe("1");
});

it("prevents a tar from writing outside the root", async () => {
  await directory("outside", { kept: "kept" });
  const path = join(dir, "evil.tar");
  const from = await directory("in", { "x/kept": "overwritten", link: { leadsTo: join(dir, "outside") } });
  await runProgram("tar", ["-c", "-P", "-f", path, "-C", from, "link"]);
  // A file below that link, one above the root, and one at an absolute path.
  for (const rename of [`s,^x/,link/,`, `s,^x/,../../../outside/,`, `s,^x/,${dir}/outside/,`]) {
    await runProgram("tar", ["-r", "-P", "-f", path, "--transform", rename, "-C", from, "x/kept"]);
  }
  await images.add("evil", path).catch(() => undefined);
  expect(await content(join(dir, "outside"))).toEqual({ kept: "kept" });
});

it("rejects a layer that does not match its digest, and keeps no file of it", async () => {
  const path = await layout("damaged", [{ files: { a: "1" } }]);
  const blobs = join(path, "blobs", "sha256");
  for (const name of await readdir(blobs)) {
    const bytes = await readFile(join(blobs, name));
    if (bytes.length > 5000) await writeFile(join(blobs, name), bytes.fill(0x62, 600, 601));
  }
  await expect(images.add("damaged", path)).rejects.toMatchObject({ code: "InvalidArgument" });
  expect(await images.find("damaged")).toBeUndefined();
  expect((await readdir(join(dir, "store"))).sort()).toEqual(["names", "roots"]);
});

it.each([
  ["a missing path", "missing", "NotFound"],
  ["a file that is not a tar", "text", "InvalidArgument"],
  ["an empty directory", "empty/", "InvalidArgument"],
])("rejects %s", async (_what, path, code) => {
  await directory(".", { text: "not a tar at all".repeat(100), "empty/": "" });
  await expect(images.add("x", join(dir, path))).rejects.toMatchObject({ code });
  expect(await images.list()).toEqual([]);
});

it.each(["", "../evil", "UPPER", "a b", "a".repeat(201)])("rejects the name %j", async (name) => {
  await expect(images.add(name, await directory("root", { a: "1" }))).rejects.toMatchObject({
    code: "InvalidArgument",
  });
});

it("keeps the files of a removed image while they are in use", async () => {
  const image = await images.add("a", await directory("root", { a: "1" }));
  await images.remove("a");
  await expect(images.get("a")).rejects.toMatchObject({
    code: "ImageNotFound",
    hint: expect.stringContaining("ramet local image add a PATH") as string,
  });
  const user = await directory("user", {});
  await images.hold(image, user);
  await images.sweep();
  expect(await content(image.rootPath)).toEqual({ a: "1" });
  await rm(user, { recursive: true });
  await images.sweep();
  await expect(images.hold(image, dir)).rejects.toThrow(/it is not on this machine/);
  expect(await readdir(join(dir, "store", "roots"))).toEqual([]);
});

it("gives an image a further name with its configuration", async () => {
  const built = await images.add("tools", await directory("root", { a: "1" }), { config: { cmd: ["serve"] } });
  const tagged = await images.tag("tools", "registry.example/tools:v1");
  expect(tagged).toEqual({ ...built, name: "registry.example/tools:v1" });
  await images.remove("tools");
  await images.sweep();
  expect(await content((await images.get("registry.example/tools:v1")).rootPath)).toEqual({ a: "1" });
  await expect(images.tag("tools", "other")).rejects.toMatchObject({ code: "ImageNotFound" });
  await expect(images.tag("registry.example/tools:v1", "../evil")).rejects.toMatchObject({ code: "InvalidArgument" });
});

it("keeps the configuration of an image whose files are added under another name", async () => {
  const built = await images.add("tools", await directory("root", { a: "1" }), { config: { cmd: ["serve"] } });
  expect((await images.add("again", built.rootPath)).config.cmd).toEqual(["serve"]);
});

it("refuses the directory from which an image is built", async () => {
  const source = await directory("code-interpreter", { Dockerfile: "FROM scratch" });
  await expect(images.add("a", source)).rejects.toMatchObject({
    code: "InvalidArgument",
    hint: expect.stringContaining("ramet local image build code-interpreter") as string,
  });
});

it("proposes to build an image that it has a recipe for, and to give it the missing name", async () => {
  const hintOf = (name: string) => images.get(name).catch((error: unknown) => (error as { hint?: string }).hint);
  expect(await hintOf("code-interpreter")).toBe("Build it with: ramet local image build code-interpreter");
  expect(await hintOf("registry.example/acs/code-interpreter:v1.6")).toBe(
    "Build it with: ramet local image build code-interpreter && ramet local image tag code-interpreter registry.example/acs/code-interpreter:v1.6",
  );
});

it("supports concurrent additions, and removes files of an interrupted run", async () => {
  await mkdir(join(dir, "store", "staging-dead"), { recursive: true });
  const root = await directory("root", { a: "1" });
  await Promise.all(["a", "b", "c"].map((name) => openImageStore({ dir: join(dir, "store") }).add(name, root)));
  expect((await images.list()).map(({ name }) => name).sort()).toEqual(["a", "b", "c"]);
  expect((await readdir(join(dir, "store"))).sort()).toEqual(["names", "roots"]);
});
