import { defineConfig } from "vitest/config";
import { reporters } from "../setup/reporters.ts";

/** `npm run test:faults` without `--long`: runs one file at a time, because the tests kill and count processes. */
export default defineConfig({
  test: {
    include: ["test/faults/*.test.ts"],
    globalSetup: ["test/setup/tools.ts", "test/setup/built-package.ts"],
    testTimeout: 300_000,
    hookTimeout: 120_000,
    // As in the other suites.
    expect: { poll: { timeout: 20_000 } },
    fileParallelism: false,
    bail: 0,
    reporters: reporters("default"),
  },
});
