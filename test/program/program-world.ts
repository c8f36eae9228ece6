import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Engine, EngineOptions } from "../engine/engine.ts";
import { linkPackages } from "../engine/link-packages.ts";
import { chosenEngine } from "./chosen-engine.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** A copy of a program that a test may change, and the engine that runs it. */
export interface ProgramWorld {
  engine: Engine;
  /** The program's folder. */
  program: string;
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
  const engine = await chosenEngine({
    ...{ program, stateFolder: home, project: "program", stack, passphrase: "a passphrase" },
    ...given,
  });
  return {
    ...{ engine, program },
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
