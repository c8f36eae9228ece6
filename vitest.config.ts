import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      { test: { name: "unit", include: ["src/**/*.test.ts"], sequence: { groupOrder: 0 } } },
      {
        test: {
          name: "cluster",
          include: ["test/{contract,cluster}/**/*.test.ts"],
          globalSetup: ["test/setup/tools.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // Each file has a control plane or sandboxes of its own: two at once only wait for each other.
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
