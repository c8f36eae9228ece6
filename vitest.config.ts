import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      { test: { name: "unit", include: ["src/**/*.test.ts", "provider/**/*.test.ts"] } },
      {
        test: {
          name: "cluster",
          include: ["test/{contract,cluster}/**/*.test.ts"],
          globalSetup: ["test/setup/tools.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
        },
      },
    ],
  },
});
