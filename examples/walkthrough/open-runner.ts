import type { ProgramRunner, RunnerOptions } from "./program-runner.ts";
import { findPulumi, pulumiRunner } from "./pulumi-runner.ts";
import { standInRunner } from "./stand-in-runner.ts";

/** `pulumi` where it is on the PATH, else what stands in for it; the description says which. */
export async function openRunner(options: RunnerOptions): Promise<ProgramRunner> {
  const command = await findPulumi();
  return command === undefined ? standInRunner(options) : pulumiRunner(command, options);
}
