import { randomBytes, createHash } from "node:crypto";
import { existsSync } from "node:fs";
import {
  copyFile,
  cp,
  link,
  mkdir,
  readdir,
  rename,
  rm,
  stat,
  writeFile,
  readFile,
  realpath,
  symlink,
} from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { engineIdPattern } from "../../api/names/system-names.ts";
import { hasSystemCode, RametError } from "../../base/errors.ts";
import { engineBuild } from "../../cell/sandbox/engine-build.ts";
import { goferName, sideProgramsName } from "../../cell/sandbox/saved-image.ts";
import { localCellImage } from "../cluster-setting.ts";
import type { CellTools } from "./cell-environment.ts";

/**
 * Keeps the programs of a cell in `<engines>/<id>`, so that checkpoints of this engine can be restored after an upgrade has
 * replaced them. Files are linked where that is possible. Does nothing if they are kept already.
 */
export async function keepEngine(engines: string, id: string, { tools, cell }: CellPrograms): Promise<void> {
  const target = join(engines, id);
  if (existsSync(target)) return;
  const making = `${target}.making`;
  await rm(making, { recursive: true, force: true });
  await mkdir(making, { recursive: true, mode: 0o700 });
  await Promise.all([
    keep(tools.runsc, join(making, "runsc")),
    keep(tools.guest, join(making, "ramet-guest")),
    keep(tools.link, join(making, "ramet-link")),
    keepSidePrograms(tools.runsc, making),
    keepCell(cell, making),
  ]);
  await rename(making, target);
}

/** The programs of an earlier engine of this cluster. */
export function keptEngine(engines: string, image: string, { cell }: CellPrograms): CellPrograms | undefined {
  const id = image.slice(localCellImage("").length);
  const directory = join(engines, id);
  if (!engineIdPattern.test(id) || image !== localCellImage(id) || !existsSync(directory)) return undefined;
  const own = join(directory, bundleName);
  const [node = process.execPath] = cell;
  return {
    tools: {
      runsc: join(directory, "runsc"),
      guest: join(directory, "ramet-guest"),
      link: join(directory, "ramet-link"),
    },
    // A cell that runs from sources is not kept, and the current one runs the earlier gVisor and guest.
    cell: existsSync(own) ? [node, own] : cell,
  };
}

/** A new engine is kept this long although no checkpoint needs it yet. */
const youngMilliseconds = 3_600_000;

/** Removes the programs of engines that are not in `needed`. Returns their ids. */
export async function dropEngines(engines: string, needed: ReadonlySet<string>, now: Date): Promise<string[]> {
  const dropped: string[] = [];
  for (const id of await readdir(engines).catch(() => [])) {
    if (!engineIdPattern.test(id) || needed.has(id)) continue;
    const directory = join(engines, id);
    if (now.getTime() - (await stat(directory)).mtimeMs < youngMilliseconds) continue;
    await rm(directory, { recursive: true, force: true });
    dropped.push(id);
  }
  return dropped;
}

const bundleName = "cell.cjs";

async function keepCell(cell: readonly string[], making: string): Promise<void> {
  const program = cell.at(-1) ?? "";
  if (basename(program) === bundleName) await copyFile(program, join(making, bundleName));
  // Node reads a bundle below a package of ES modules otherwise as one.
  await writeFile(join(making, "package.json"), "{}\n");
}

/** gVisor's side programs are in a directory beside `runsc`. */
async function keepSidePrograms(runsc: string, making: string): Promise<void> {
  const side = join(dirname(resolve(runsc)), sideProgramsName);
  if (existsSync(side)) await cp(side, join(making, sideProgramsName), { recursive: true });
}

/** Makes a file that remains when the other one is removed. It is whole or absent. Does nothing if it exists: it may be running. */
export async function keep(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: unknown) => {
    if (hasSystemCode(error, "EEXIST")) return;
    const making = `${to}.${randomBytes(6).toString("hex")}`;
    try {
      await copyFile(from, making);
      await rename(making, to);
    } catch (cause) {
      await rm(making, { force: true });
      throw cause;
    }
  });
}

/** The programs that run in a Pod with one cell image. */
interface CellPrograms {
  tools: CellTools;
  /** The cell's program and its arguments. */
  cell: readonly string[];
}

/** The programs of an earlier cell image. Undefined: this machine does not have it. */
export type EarlierPrograms = (image: string) => CellPrograms | undefined;

interface CellImagesOptions extends CellPrograms {
  /** The name of the current cell image. @default every image that is not an earlier one */
  cellImage?: string | undefined;
  /** @default there are no earlier images */
  earlier?: EarlierPrograms | undefined;
}

/** The cell images of this machine: the programs of the current one, and those of earlier engines. */
export class CellImages {
  readonly current: CellPrograms;
  readonly #options: CellImagesOptions;
  readonly #builds = new Map<string, Promise<Record<string, string>>>();

  constructor(options: CellImagesOptions) {
    this.#options = options;
    this.current = { tools: options.tools, cell: options.cell };
  }

  /** @throws RametError `ImageNotFound` */
  programs(image: string): CellPrograms {
    const { cellImage, earlier } = this.#options;
    if (image === cellImage) return this.current;
    const found = earlier?.(image);
    if (found !== undefined) return found;
    if (cellImage === undefined) return this.current;
    throw new RametError("ImageNotFound", `the cell image ${image} is not on this machine`, {
      hint: "Capture the checkpoint again with the current release, or install the release that captured it",
    });
  }

  /** Reads the builds of gVisor and guest once, instead of in every cell. If that fails, each cell reports the error. */
  build({ tools }: CellPrograms): Promise<Record<string, string>> {
    const key = `${tools.runsc} ${tools.guest}`;
    const known = this.#builds.get(key) ?? readBuild(tools);
    this.#builds.set(key, known);
    return known;
  }
}

async function readBuild(tools: CellTools): Promise<Record<string, string>> {
  const engine = await engineBuild(tools).catch(() => undefined);
  return engine === undefined ? {} : { RAMET_ENGINE_BUILD: JSON.stringify(engine) };
}

/**
 * Makes a directory with gVisor's side programs, and with Ramet's gofer under the name of gVisor's (runsc/gvisorbinaries). Its name
 * depends on the programs, because cells keep using theirs when the node has others.
 * @returns the directory
 */
export async function linkSidePrograms(parent: string, runsc: string, gofer: string): Promise<string> {
  const own = join(dirname(await realpath(runsc)), sideProgramsName);
  const names = (await readdir(own).catch(() => [])).filter((name) => name !== goferName).toSorted();
  const content = digestOf(await readFile(gofer));
  const directory = join(parent, digestOf(JSON.stringify([own, names, content])).slice(0, 16));
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await Promise.all([
    ...names.map((name) => linked(join(own, name), join(directory, name))),
    // A cell keeps using it when a later release has removed it from the cache.
    keep(gofer, join(directory, goferName)),
  ]);
  return directory;
}

function digestOf(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

async function linked(target: string, path: string): Promise<void> {
  await symlink(target, path).catch((error: unknown) => {
    if (!hasSystemCode(error, "EEXIST")) throw error;
  });
}
