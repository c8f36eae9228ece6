import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

it("docs/errors.md shows the codes as they are", async () => {
  const script = fileURLToPath(new URL("../../scripts/generate-errors.mjs", import.meta.url));
  const { stderr } = await promisify(execFile)(process.execPath, ["--no-warnings", script, "--check"]);
  expect(stderr).toBe("");
});
