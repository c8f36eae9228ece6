import { RametError } from "../../base/errors.ts";
import { engineBuild } from "../../cell/sandbox/engine-build.ts";
import type { CellTools } from "./cell-environment.ts";

/** The programs that run in a Pod with one cell image. */
export interface CellPrograms {
  tools: CellTools;
  /** The cell's program and its arguments. */
  cell: readonly string[];
}

/** The programs of an earlier cell image. Undefined: this machine does not have it. */
export type EarlierPrograms = (image: string) => CellPrograms | undefined;

export interface CellImagesOptions extends CellPrograms {
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
