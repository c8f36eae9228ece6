import { lstat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { RametError, isFulfilled } from "../../base/errors.ts";
import { imagesDirectory } from "../../local/images/build-once.ts";
import { type Image, type ImageStore, openImageStore } from "../../local/images/image-store.ts";
import { type InterpreterImageName, ensureInterpreterImage } from "../../local/images/interpreter-image.ts";
import { ensurePythonImage, pythonImageName } from "../../local/images/python-image.ts";
import { type Io, lineWriter, printLine } from "../io.ts";
import { inOrder, table } from "../output/render.ts";

export interface AddImageOptions {
  name: string;
  path: string;
}

export interface ListImagesOptions {
  output: "table" | "json";
}

/** `ramet local image add`: prints the image's digest. */
export async function addImage(io: Io, { name, path }: AddImageOptions): Promise<void> {
  const store = images(io);
  const image = await store.add(name, resolve(path), { signal: io.signal });
  await store.sweep();
  if (!(await hasShell(image.rootPath))) {
    printLine(io.stderr, `warning: ${name} has no /bin/sh; check that ${path} is the root directory of an image`);
  }
  if (startsNothing(image)) {
    const why = "a directory or a tar says nothing about them";
    const next = "set a command in each template, or add an OCI layout";
    printLine(io.stderr, `warning: ${name} has no entrypoint and no command, because ${why}; ${next}`);
  }
  printLine(io.stdout, image.digest);
}

/** Whether a template without a command starts no program. */
function startsNothing({ config: { entrypoint, cmd } }: Image): boolean {
  return entrypoint.length + cmd.length === 0;
}

/** `ramet local image tag`: prints the image's digest. */
export async function tagImage(io: Io, { name, further }: { name: string; further: string }): Promise<void> {
  printLine(io.stdout, (await images(io).tag(name, further)).digest);
}

export type BuiltImage = typeof pythonImageName | InterpreterImageName;

/** `ramet local image build`: prints the image's digest. Builds nothing if the image is there and its recipe is the same. */
export async function buildImage(io: Io, { name }: { name: BuiltImage }): Promise<void> {
  const store = images(io);
  const options = { store, clock: io.clock, signal: io.signal, progress: lineWriter(io.stderr) };
  const image = await (name === pythonImageName ? ensurePythonImage(options) : ensureInterpreterImage(options, name));
  await store.sweep();
  printLine(io.stdout, image.digest);
}

/** A link is enough: its target is relative to the image's root. */
async function hasShell(rootPath: string): Promise<boolean> {
  const found = await Promise.all(["bin/sh", "usr/bin/sh"].map((path) => isFulfilled(lstat(join(rootPath, path)))));
  return found.includes(true);
}

/** `ramet local image rm`. Existing sandboxes keep running. */
export async function removeImages(io: Io, { names }: { names: readonly string[] }): Promise<void> {
  const store = images(io);
  const known = new Set((await store.list()).map(({ name }) => name));
  const missing = names.filter((name) => !known.has(name));
  if (missing.length > 0) {
    throw new RametError("NotFound", `Cannot remove ${missing.join(", ")}: no such image is on this machine`, {
      hint: "List the images with: ramet local image ls",
    });
  }
  for (const name of names) {
    await store.remove(name);
    printLine(io.stdout, `image ${name} removed`);
  }
  await store.sweep();
}

export async function listImages(io: Io, { output }: ListImagesOptions): Promise<void> {
  const found = inOrder(await images(io).list(), (image) => image);
  if (output === "json") printLine(io.stdout, JSON.stringify(found, undefined, 2));
  else
    io.stdout.write(
      table(
        ["NAME", "DIGEST", "STARTS", "PATH"],
        found.map((one) => [one.name, one.digest.slice(0, 19), startOf(one), one.rootPath]),
      ),
    );
}

function startOf({ config }: Image): string {
  return [...config.entrypoint, ...config.cmd].join(" ") || "nothing";
}

function images(io: Io): ImageStore {
  const progress = lineWriter(io.stderr);
  return openImageStore({ dir: imagesDirectory(), clock: io.clock, progress });
}
