import { defineConfig } from "vitest/config";

/** What is waited for comes at once on an idle machine; a busy one is no failure. */
const expect = { poll: { timeout: 20_000 } };

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["{src,provider,components,policy}/**/*.test.ts"],
          testTimeout: 30_000,
          expect,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: "cluster",
          include: ["test/{contract,cluster}/**/*.test.ts"],
          globalSetup: ["test/setup/tools.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          expect,
          // Each file has a control plane or sandboxes of its own: two at once only wait for each other.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: "program",
          include: ["test/program/**/*.test.ts"],
          globalSetup: ["test/setup/tools.ts", "test/program/built-package.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          expect,
          fileParallelism: false,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
