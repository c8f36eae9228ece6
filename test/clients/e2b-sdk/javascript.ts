import { readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import * as z from "zod";
import { isFile } from "./is-file.ts";
import type { TestResult } from "./report.ts";
import { install, runShown, type SdkRun } from "./run-tests.ts";

/** The version of pnpm with which the SDK's repository is installed. */
const pnpm = "pnpm@10.34.5";

/** Runs the tests of the SDK for JavaScript with its own test runner. */
export async function javascriptTests(run: SdkRun): Promise<TestResult[]> {
  const { directory, package: name, projects } = run.checkout.javascript;
  const vitest = join(directory, "node_modules", "vitest", "vitest.mjs");
  if (!(await isFile(vitest))) {
    const options = ["--filter", name, "--ignore-scripts", "--frozen-lockfile"];
    await install(["npx", "--yes", pnpm, "install", ...options], run.checkout.path);
  }
  const outputFile = join(run.output, "javascript.json");
  const selected = projects.flatMap((project) => ["--project", project]);
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${outputFile}`];
  const options = ["run", ...selected, ...reporters, "--maxWorkers=2", ...run.files];
  const { environment, through } = run;
  await runShown([...through, process.execPath, vitest, ...options], { cwd: directory, environment });
  const { testResults } = Report.parse(JSON.parse(await readFile(outputFile, "utf8")));
  return testResults.flatMap(({ name: path, message, assertionResults }) => {
    const file = `javascript/${relative(join(directory, "tests"), path)}`;
    // A file that cannot be loaded has no tests.
    if (assertionResults.length === 0) return [{ file, name: "the file", outcome: "failed" as const, message }];
    return assertionResults.map(({ fullName, status, failureMessages }) => ({
      file,
      name: fullName,
      outcome: outcomes[status] ?? ("skipped" as const),
      message: failureMessages.join("\n"),
    }));
  });
}

const outcomes: Record<string, TestResult["outcome"]> = { passed: "passed", failed: "failed" };

const Report = z.looseObject({
  testResults: z.array(
    z.looseObject({
      name: z.string(),
      message: z.string().default(""),
      assertionResults: z.array(
        z.looseObject({ fullName: z.string(), status: z.string(), failureMessages: z.array(z.string()).default([]) }),
      ),
    }),
  ),
});
