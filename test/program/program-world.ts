import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Engine, EngineOptions } from "../engine/engine.ts";
import { findPulumi } from "../engine/find-pulumi.ts";
import { ProgramDirectory } from "../engine/program-directory.ts";
import { PulumiEngine } from "../engine/pulumi-engine.ts";
import { StandInEngine } from "../engine/stand-in-engine.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** Shared by the test programs. It has the extension .mts because it has no package.json that declares a module. */
const shared = "not-awaited.mts";

/** A copy of a program that a test can edit, and the engine that runs it. */
export interface ProgramWorld {
  engine: Engine;
  /** The program's directory. */
  program: string;
  /** Replaces a text in the program. */
  edit: (before: string, after: string) => Promise<void>;
  /** Copies a kubeconfig with the address of an unreachable server. Returns the path of the copy. */
  unreachable: (kubeconfig: string) => Promise<string>;
  /** Reads the state file. */
  state: () => Promise<string>;
  remove: () => Promise<void>;
}

export interface ProgramWorldOptions extends Pick<EngineOptions, "kubeconfig" | "configuration" | "secretKeys"> {
  stack?: string;
}

/** @param path the program's directory, relative to the repository */
export async function openProgram(path: string, options: ProgramWorldOptions): Promise<ProgramWorld> {
  const directory = await ProgramDirectory.make(join(root, path));
  await copyFile(join(import.meta.dirname, "programs", shared), join(directory.home, shared));
  const { stack = "test", ...given } = options;
  const engine = await chosenEngine({
    program: directory.path,
    stateDirectory: directory.home,
    project: "program",
    stack,
    passphrase: "a passphrase",
    ...given,
  });
  return {
    engine,
    program: directory.path,
    edit: (before, after) => directory.edit(before, after),
    unreachable: async (kubeconfig) => {
      const copy = join(directory.home, "unreachable");
      // Nothing listens on port 9 ("discard").
      await writeFile(copy, (await readFile(kubeconfig, "utf8")).replace(/server: .*/, "server: https://127.0.0.1:9"));
      return copy;
    },
    state: () => readFile(engine.statePath, "utf8"),
    remove: () => directory.remove(),
  };
}

/** Opens the stand-in, or with `npm run test:pulumi` the `pulumi` on the PATH. */
export async function chosenEngine(options: EngineOptions): Promise<Engine> {
  if (process.env["RAMET_TEST_ENGINE"] !== "pulumi") return new StandInEngine(options);
  const command = await findPulumi();
  if (command === undefined) throw new Error("the PATH has no pulumi that is compatible with the installed SDK");
  return new PulumiEngine({ ...options, command, isolated: true });
}
