import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

it("finds docs/reference/ignored-fields.md up to date with the table", async () => {
  const script = fileURLToPath(new URL("../../../scripts/generate-ignored-fields.mjs", import.meta.url));
  const { stderr } = await promisify(execFile)(process.execPath, ["--no-warnings", script, "--check"]);
  expect(stderr).toBe("");
}, 60_000);
