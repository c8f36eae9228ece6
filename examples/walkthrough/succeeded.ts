import type { RunResult } from "../../test/engine/engine.ts";

/** Returns the result of a successful run. @throws Error with the whole output if the run failed */
export async function succeeded(run: Promise<RunResult>): Promise<RunResult> {
  const result = await run;
  if (!result.succeeded) throw new Error(result.text);
  return result;
}
