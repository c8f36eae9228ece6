import { StandInEngine, type RunResult } from "../../test/engine/stand-in-engine.ts";
import type { ProgramRun, ProgramRunner, RunnerOptions } from "./program-runner.ts";

/** Runs a program through the stand-in for Pulumi's engine; what that does not prove stands in test/engine/README.md. */
export function standInRunner(options: RunnerOptions): ProgramRunner {
  const { folder, stateFolder, kubeconfigPath, onLine, signal } = options;
  const engine = new StandInEngine({
    ...{ program: folder, stateFolder, kubeconfig: kubeconfigPath, onLine, signal },
    ...{ project: "ramet-local", stack: "demo", passphrase: "demo" },
  });
  return {
    description: "no pulumi is on the PATH: a stand-in for its engine runs the program in Pulumi's own processes",
    preview: async () => succeeded(await engine.preview()),
    up: async () => succeeded(await engine.up()),
    destroy: async () => {
      succeeded(await engine.destroy());
    },
  };
}

function succeeded({ succeeded: isWell, text, outputs }: RunResult): ProgramRun {
  if (!isWell) throw new Error(text);
  return { text, outputs };
}
