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
import { finishImmediately } from "./finishing.ts";
import { measurePackage, type PackageCosts } from "./package-costs.ts";
import { summary, type Summary } from "./samples.ts";

/** The cost of a Pulumi program with a hundred unchanged objects, and of installing its dependencies. */
export interface ProgramCosts {
  /** The engine that ran the programs. */
  ranBy: string;
  runs: { program: "ramet" | "plain"; what: "preview" | "up"; milliseconds: Summary | undefined }[];
  /** The size of the provider that the state contains once for each resource. */
  providerBytes: Record<keyof typeof providerTexts, number>;
  package: PackageCosts;
}

export interface ProgramOptions {
  /** The number of runs of each program. */
  n: number;
  signal: AbortSignal;
  cleanUp: CleanUp;
}

/**
 * Runs a program with a hundred of Ramet's objects, alternating with one with a hundred ConfigMaps, against a real API server.
 * **A stand-in finishes the objects of the first program** once, before the measurement: see `finishImmediately`.
 * @throws Error if a run finds a change
 */
export async function measureProgram({ n, signal, cleanUp }: ProgramOptions): Promise<ProgramCosts> {
  const plane = await startControlPlane({ signal });
  cleanUp.add(() => plane.stop());
  const client = new KubeClient(plane.connection);
  cleanUp.add(() => client.close());
  await installCrds(client, signal);
  const controllers = finishImmediately(client);
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
  const { apiKey, namedSnapshot, readiness, sandboxClone } = providerTexts;
  return {
    ranBy: programs.ramet.description,
    runs,
    providerBytes: {
      apiKey: apiKey.length,
      namedSnapshot: namedSnapshot.length,
      readiness: readiness.length,
      sandboxClone: sandboxClone.length,
    },
    package: await measurePackage(signal),
  };
}

async function timed(engine: Engine, what: "preview" | "up"): Promise<number> {
  const start = performance.now();
  const { steps, text } = await succeeded(engine[what]());
  const milliseconds = performance.now() - start;
  if (steps.some(({ operation }) => operation !== "same")) throw new Error(`the ${what} found a change: ${text}`);
  return milliseconds;
}
