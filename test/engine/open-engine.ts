import type { Engine, EngineOptions } from "./engine.ts";
import { findPulumi, hasKubernetesPlugin } from "./find-pulumi.ts";
import { PulumiEngine } from "./pulumi-engine.ts";
import { StandInEngine } from "./stand-in-engine.ts";

/** Uses `pulumi` if it is on the PATH and has its Kubernetes plugin, and the stand-in otherwise. `description` names the choice. */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const command = (await hasKubernetesPlugin()) ? await findPulumi() : undefined;
  return command === undefined ? new StandInEngine(options) : new PulumiEngine({ ...options, command });
}
