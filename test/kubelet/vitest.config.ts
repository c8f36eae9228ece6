import { globSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { reporters } from "../setup/reporters.ts";
import { shareOf } from "../setup/share.ts";

/** `npm run test:kubelet` runs these tests in separate namespaces (main.ts), one file at a time: each installs the controllers. */
export default defineConfig({
  test: {
    include: shareOf(globSync("test/kubelet/**/*.test.ts")),
    globalSetup: ["test/kubelet/start-cluster.ts"],
    testTimeout: 180_000,
    hookTimeout: 300_000,
    fileParallelism: false,
    reporters: reporters("verbose"),
  },
});
