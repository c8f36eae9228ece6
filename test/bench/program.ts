import { join } from "node:path";
import { installCrds } from "../../src/controllers/install-crds.ts";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { succeeded } from "../../examples/walkthrough/succeeded.ts";
import type { Engine } from "../engine/engine.ts";
import { openEngine } from "../engine/open-engine.ts";
import { ProgramDirectory } from "../engine/program-directory.ts";
import { providerTexts } from "../program/provider-texts.ts";
import { startControlPlane } from "../setup/control-plane.ts";
import type { CleanUp } from "./clean-up.ts";
import { finishAtOnce } from "./finishing.ts";
import { measurePackage, type PackageCosts } from "./package-costs.ts";
import { summary, type Summary } from "./samples.ts";

/** What a Pulumi program of a hundred objects costs when nothing has changed, and what it takes to have one. */
export interface ProgramCosts {
  /** Who ran the programs. */
  ranBy: string;
  runs: { program: "ramet" | "plain"; what: "preview" | "up"; milliseconds: Summary | undefined }[];
  /** Of what the state keeps as a provider, once for each resource. */
  providerBytes: Record<keyof typeof providerTexts, number>;
  package: PackageCosts;
}

export interface ProgramOptions {
  /** How often each is run. */
  n: number;
  signal: AbortSignal;
  cleanUp: CleanUp;
}

/**
 * Runs a program of a hundred of Ramet's objects, and beside it one of a hundred ConfigMaps, taking turns, against a real API server.
 * **What the first one declares is done by a stand-in**, once, before anything is measured: see `finishAtOnce`.
 * @throws Error when a run has found something to change
 */
export async function measureProgram({ n, signal, cleanUp }: ProgramOptions): Promise<ProgramCosts> {
  const plane = await startControlPlane({ signal });
  cleanUp.add(() => plane.stop());
  const client = new KubeClient(plane.connection);
  cleanUp.add(() => client.close());
  await installCrds(client, signal);
  const controllers = finishAtOnce(client);
  cleanUp.add(() => controllers.stop());
  const programs = { ramet: await open("ramet"), plain: await open("plain") };

  async function open(name: "ramet" | "plain"): Promise<Engine> {
    const directory = await ProgramDirectory.make(join(import.meta.dirname, "programs", name));
    cleanUp.add(() => directory.remove());
    const { path, home } = directory;
    const engine = await openEngine({
      program: path,
      stateDirectory: home,
      kubeconfig: plane.kubeconfigPath,
      signal,
      project: name,
      stack: "bench",
      passphrase: "bench",
    });
    await succeeded(engine.up());
    return engine;
  }

  const measured = {
    ramet: { preview: [] as number[], up: [] as number[] },
    plain: { preview: [] as number[], up: [] as number[] },
  };
  for (let round = 0; round < n; round++) {
    for (const program of ["ramet", "plain"] as const) {
      for (const what of ["preview", "up"] as const) measured[program][what].push(await timed(programs[program], what));
    }
  }
  const runs = (["ramet", "plain"] as const).flatMap((program) =>
    (["preview", "up"] as const).map((what) => ({ program, what, milliseconds: summary(measured[program][what]) })),
  );
  const { namedSnapshot, sandboxClone } = providerTexts;
  return {
    ranBy: programs.ramet.description,
    runs,
    providerBytes: { namedSnapshot: namedSnapshot.length, sandboxClone: sandboxClone.length },
    package: await measurePackage(signal),
  };
}

async function timed(engine: Engine, what: "preview" | "up"): Promise<number> {
  const start = performance.now();
  const { steps, text } = await succeeded(engine[what]());
  const milliseconds = performance.now() - start;
  if (steps.some(({ operation }) => operation !== "same"))
    throw new Error(`the ${what} found something to change: ${text}`);
  return milliseconds;
}
