import type { Engine, EngineOptions } from "../engine/engine.ts";
import { findPulumi } from "../engine/find-pulumi.ts";
import { PulumiEngine } from "../engine/pulumi-engine.ts";
import { StandInEngine } from "../engine/stand-in-engine.ts";

/** What runs the programs of a test: the stand-in, or with `npm run test:pulumi` the `pulumi` that is on the PATH. */
export async function chosenEngine(options: EngineOptions): Promise<Engine> {
  if (process.env["RAMET_TEST_ENGINE"] !== "pulumi") return new StandInEngine(options);
  const command = await findPulumi();
  if (command === undefined) throw new Error("there is no pulumi on the PATH that the SDK can speak to");
  return new PulumiEngine({ ...options, command, isolated: true });
}
