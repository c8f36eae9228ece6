import type { Engine, EngineOptions } from "./engine.ts";
import { findPulumi, hasKubernetesPlugin } from "./find-pulumi.ts";
import { PulumiEngine } from "./pulumi-engine.ts";
import { StandInEngine } from "./stand-in-engine.ts";

/** `pulumi` where it is on the PATH and has its plugin for Kubernetes, else what stands in for it; the description says which. */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const command = (await hasKubernetesPlugin()) ? await findPulumi() : undefined;
  return command === undefined ? new StandInEngine(options) : new PulumiEngine({ ...options, command });
}
