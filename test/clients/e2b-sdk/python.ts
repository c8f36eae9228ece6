import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { isFile } from "./is-file.ts";
import type { TestResult } from "./report.ts";
import { install, runShown, type SdkRun } from "./run-tests.ts";

/** Besides the SDK's own dependencies. */
const packages = [
  "pytest>=9,<10",
  "pytest-xdist>=3.3,<4",
  "pytest-dotenv>=0.5.2,<0.6",
  "pytest-asyncio>=1.3,<2",
  "pytest-timeout>=2.4,<3",
  "pytest-json-report>=1.5,<2",
  "matplotlib>=3.8,<4",
];

/** Runs the tests of the SDK for Python, synchronous and asynchronous. */
export async function pythonTests(run: SdkRun): Promise<TestResult[]> {
  const { directory } = run.checkout.python;
  const venv = join(directory, ".venv");
  const python = join(venv, "bin", "python");
  const complete = join(venv, "complete");
  if (!(await isFile(complete))) {
    await install(["python3", "-m", "venv", venv], directory);
    await install(
      [python, "-m", "pip", "install", "--quiet", ".", ...(await lockedSdk(directory)), ...packages],
      directory,
    );
    await install(["touch", complete], directory);
  }
  const outputFile = join(run.output, "python.json");
  const report = ["--json-report", `--json-report-file=${outputFile}`, "--json-report-omit=log,streams,keywords"];
  const options = ["-B", "-m", "pytest", "-q", "--numprocesses=2", ...report, ...run.files];
  const { environment, through } = run;
  await runShown([...through, python, ...options], { cwd: directory, environment });
  const { tests, collectors } = Report.parse(JSON.parse(await readFile(outputFile, "utf8")));
  const unloaded = collectors.filter(({ outcome }) => outcome === "failed");
  return [
    ...unloaded.map(({ nodeid, longrepr }) => failed(nodeid, longrepr)),
    ...tests.map((test) => {
      const { nodeid, outcome } = test;
      if (outcome === "passed" || outcome === "xfailed") return { ...named(nodeid), outcome: "passed" as const };
      if (outcome === "skipped") return { ...named(nodeid), outcome: "skipped" as const };
      const broken = [test.setup, test.call, test.teardown].find((stage) => stage?.outcome === "failed");
      return failed(nodeid, broken?.crash?.message ?? broken?.longrepr ?? outcome);
    }),
  ];
}

/** The version of `e2b` with which the SDK is developed. A newer one can have other internals. */
async function lockedSdk(directory: string): Promise<string[]> {
  const lock = await readFile(join(directory, "poetry.lock"), "utf8");
  const version = /^name = "e2b"\nversion = "(.+)"$/m.exec(lock)?.[1];
  return version === undefined ? [] : [`e2b==${version}`];
}

function failed(nodeid: string, message: string): TestResult {
  return { ...named(nodeid), outcome: "failed", message };
}

function named(nodeid: string): Pick<TestResult, "file" | "name"> {
  const [path = "", ...name] = nodeid.split("::");
  return { file: `python/${path.replace(/^tests\//, "")}`, name: name.join("::") };
}

const Stage = z.looseObject({
  outcome: z.string(),
  longrepr: z.string().optional(),
  crash: z.looseObject({ message: z.string() }).optional(),
});

const Report = z.looseObject({
  collectors: z
    .array(z.looseObject({ nodeid: z.string(), outcome: z.string(), longrepr: z.string().default("") }))
    .default([]),
  tests: z.array(
    z.looseObject({
      nodeid: z.string(),
      outcome: z.string(),
      setup: Stage.optional(),
      call: Stage.optional(),
      teardown: Stage.optional(),
    }),
  ),
});
