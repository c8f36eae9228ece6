import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { StandInEngine, type EngineOptions } from "../engine/stand-in-engine.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A copy of a program that a test may change, and the stand-in engine that runs it. */
export interface ProgramWorld {
  engine: StandInEngine;
  /** Replaces a text in the program. */
  edit: (before: string, after: string) => Promise<void>;
  /** A kubeconfig as that one, of a server that nobody answers for. */
  unreachable: (kubeconfig: string) => Promise<string>;
  /** The state file, as it rests. */
  state: () => Promise<string>;
  remove: () => Promise<void>;
}

export interface ProgramWorldOptions extends Pick<EngineOptions, "kubeconfig" | "configuration" | "secretKeys"> {
  stack?: string;
}

/** @param folder of the program, in the repository */
export async function openProgram(folder: string, options: ProgramWorldOptions): Promise<ProgramWorld> {
  const home = await mkdtemp(join(tmpdir(), "ramet-program-"));
  const program = join(home, "program");
  await cp(join(root, folder), program, { recursive: true });
  await writeFile(join(program, "package.json"), JSON.stringify({ type: "module", main: "index.ts" }));
  await linkPackages(program);
  const { stack = "test", ...given } = options;
  const engine = new StandInEngine({
    ...{ program, stateFolder: home, project: "program", stack, passphrase: "a passphrase" },
    ...given,
  });
  return {
    engine,
    edit: async (before, after) => {
      const path = join(program, "index.ts");
      const text = await readFile(path, "utf8");
      if (!text.includes(before)) throw new Error(`the program has no ${before}`);
      await writeFile(path, text.replace(before, after));
    },
    unreachable: async (kubeconfig) => {
      const path = join(home, "unreachable");
      // The port "discard": nothing listens there.
      await writeFile(path, (await readFile(kubeconfig, "utf8")).replace(/server: .*/, "server: https://127.0.0.1:9"));
      return path;
    },
    state: () => readFile(engine.statePath, "utf8"),
    remove: () => rm(home, { recursive: true, force: true }),
  };
}

/** As `npm install` with links would leave it: the program's own packages, and those of this repository. */
export async function linkPackages(program: string): Promise<void> {
  await mkdir(join(program, "node_modules"));
  await symlink(root, join(program, "node_modules/ramet"));
  await symlink(join(root, "node_modules/@pulumi"), join(program, "node_modules/@pulumi"));
}
