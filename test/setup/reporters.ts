import { writeFileSync } from "node:fs";
import type { TestUserConfig } from "vitest/config";
import type { Reporter } from "vitest/node";

/**
 * Vitest's output: a reporter for people and, for a program that names a file in `RAMET_TEST_REPORT`, the files whose failed tests
 * are worth a second run.
 */
export function reporters(forPeople: "default" | "verbose"): NonNullable<TestUserConfig["reporters"]> {
  const path = process.env["RAMET_TEST_REPORT"];
  return path === undefined ? [forPeople] : [forPeople, failedFiles(path)];
}

/** Writes one file a line, and none after an error outside of tests, which a run of these files may not repeat. */
function failedFiles(path: string): Reporter {
  return {
    onTestRunEnd(modules, unhandledErrors, reason) {
      if (unhandledErrors.length > 0 || reason !== "failed") return;
      const failed = modules.filter((module) => !["passed", "skipped"].includes(module.state()));
      const files = new Set(failed.map(({ relativeModuleId }) => `${relativeModuleId}\n`));
      writeFileSync(path, [...files].join(""));
    },
  };
}
