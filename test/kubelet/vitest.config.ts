import { defineConfig } from "vitest/config";

/** What `npm run test:kubelet` runs in namespaces of its own (main.ts). One cluster for all, as a node takes a minute. */
export default defineConfig({
  test: {
    include: ["test/kubelet/**/*.test.ts"],
    testTimeout: 180_000,
    hookTimeout: 300_000,
    fileParallelism: false,
    reporters: ["verbose"],
  },
});
