import { defineConfig } from "vitest/config";

/** `npm run test:volumes` runs these tests against a cluster that exists (main.ts). */
export default defineConfig({
  test: {
    include: ["test/volumes/**/*.test.ts"],
    globalSetup: ["test/setup/built-package.ts"],
    reporters: ["verbose"],
  },
});
