import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

it("finds docs/errors.md up to date with the error codes", async () => {
  const script = fileURLToPath(new URL("../../scripts/generate-errors.mjs", import.meta.url));
  const { stderr } = await promisify(execFile)(process.execPath, ["--no-warnings", script, "--check"]);
  expect(stderr).toBe("");
});
