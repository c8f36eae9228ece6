import type { TestUserConfig } from "vitest/config";

/** Vitest's output: a reporter for people and, for a program that names a file in `RAMET_TEST_REPORT`, a report in JSON. */
export function reporters(forPeople: "default" | "verbose"): NonNullable<TestUserConfig["reporters"]> {
  const outputFile = process.env["RAMET_TEST_REPORT"];
  return outputFile === undefined ? [forPeople] : [forPeople, ["json", { outputFile }]];
}
