import { defineConfig } from "vitest/config";
import { kubernetesPlugin, missingPrograms } from "../engine/find-pulumi.ts";

/**
 * The others declare resources of clouds, whose plugins it would need, read a state that the stand-in wrote, or are about files that
 * Pulumi never sees.
 */
const programs = ["local-program", "notes", "install", "stack", "review", "faults", "imports"];

/** `npm run test:pulumi`: the programs of the project "program" once more, run by the `pulumi` that is on the PATH. */
export default defineConfig(async () => {
  const missing = await missingPrograms();
  const isThere = missing.every((program) => program === kubernetesPlugin);
  return {
    test: {
      include: [
        "test/pulumi/needs.test.ts",
        ...(isThere ? ["test/pulumi/interrupted.test.ts"] : []),
        ...(missing.length === 0
          ? ["test/pulumi/root-project.test.ts", "test/pulumi/other-languages.test.ts", ...programs.map(testOf)]
          : []),
      ],
      env: { RAMET_TEST_ENGINE: "pulumi" },
      globalSetup: isThere ? ["test/setup/tools.ts", "test/setup/built-package.ts"] : [],
      // A command takes seconds, and most tests need several.
      testTimeout: 300_000,
      hookTimeout: 120_000,
      expect: { poll: { timeout: 20_000 } },
      fileParallelism: false,
      reporters: ["verbose"],
    },
  };
});

function testOf(program: string): string {
  return `test/program/${program}.test.ts`;
}
