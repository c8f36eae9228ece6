import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Engine, EngineOptions } from "../engine/engine.ts";
import { findPulumi } from "../engine/find-pulumi.ts";
import { ProgramDirectory } from "../engine/program-directory.ts";
import { PulumiEngine } from "../engine/pulumi-engine.ts";
import { StandInEngine } from "../engine/stand-in-engine.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** What programs of tests share: it lies beside their folders, where no package.json says that it is a module. */
const shared = "not-awaited.mts";

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

/** @param path of the program's folder, in the repository */
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
      // The port "discard": nothing listens there.
      await writeFile(copy, (await readFile(kubeconfig, "utf8")).replace(/server: .*/, "server: https://127.0.0.1:9"));
      return copy;
    },
    state: () => readFile(engine.statePath, "utf8"),
    remove: () => directory.remove(),
  };
}

/** What runs the programs of a test: the stand-in, or with `npm run test:pulumi` the `pulumi` that is on the PATH. */
export async function chosenEngine(options: EngineOptions): Promise<Engine> {
  if (process.env["RAMET_TEST_ENGINE"] !== "pulumi") return new StandInEngine(options);
  const command = await findPulumi();
  if (command === undefined) throw new Error("there is no pulumi on the PATH that the SDK can speak to");
  return new PulumiEngine({ ...options, command, isolated: true });
}
