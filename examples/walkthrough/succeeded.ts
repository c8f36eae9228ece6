import type { RunResult } from "../../test/engine/engine.ts";

/** What a run of a program has done. @throws Error with all that was said, when it failed */
export async function succeeded(run: Promise<RunResult>): Promise<RunResult> {
  const result = await run;
  if (!result.succeeded) throw new Error(result.text);
  return result;
}
