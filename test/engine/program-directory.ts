import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { linkPackages } from "./link-packages.ts";

/** A copy of a program that a test can edit, as a person edits it in a repository. */
export class ProgramDirectory {
  /** The parent directory of the program and of its state. */
  readonly home: string;

  private constructor(home: string) {
    this.home = home;
  }

  /** @param program the program's directory, with an `index.ts` */
  static async make(program: string): Promise<ProgramDirectory> {
    const made = new ProgramDirectory(await mkdtemp(join(tmpdir(), "ramet-program-")));
    await cp(program, made.path, { recursive: true, filter: (path) => !path.endsWith("node_modules") });
    await writeFile(join(made.path, "package.json"), JSON.stringify({ type: "module", main: "index.ts" }));
    await linkPackages(made.path);
    return made;
  }

  get path(): string {
    return join(this.home, "program");
  }

  /** Replaces a text in the program. @throws Error if the program does not contain it */
  async edit(before: string, after: string): Promise<void> {
    const path = join(this.path, "index.ts");
    const text = await readFile(path, "utf8");
    if (!text.includes(before)) throw new Error(`the program does not contain ${before}`);
    await writeFile(path, text.replace(before, after));
  }

  remove(): Promise<void> {
    return rm(this.home, { recursive: true, force: true });
  }
}
