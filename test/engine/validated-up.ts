import type { Engine, EngineOptions, RunResult } from "./engine.ts";

/** Where policies judge, a preview comes first, and nothing is made if it fails: as the command `pulumi up` has it. */
export async function upAfterPreview(
  engine: Pick<Engine, "preview">,
  { policyPack }: Pick<EngineOptions, "policyPack">,
  up: () => Promise<RunResult>,
): Promise<RunResult> {
  if (policyPack !== undefined) {
    const preview = await engine.preview();
    if (!preview.succeeded) return preview;
  }
  return up();
}
