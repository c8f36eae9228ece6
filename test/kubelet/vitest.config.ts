import { defineConfig } from "vitest/config";

/** What `npm run test:kubelet` runs in namespaces of its own (main.ts). One file at a time: each installs the controllers. */
export default defineConfig({
  test: {
    include: ["test/kubelet/**/*.test.ts"],
    globalSetup: ["test/kubelet/start-cluster.ts"],
    testTimeout: 180_000,
    hookTimeout: 300_000,
    fileParallelism: false,
    reporters: ["verbose"],
  },
});
