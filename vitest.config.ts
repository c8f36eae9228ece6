import { globSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { cacheDirectory } from "./src/local/tools/tool.ts";
import { reporters } from "./test/setup/reporters.ts";
import { shareOf } from "./test/setup/share.ts";
import { caseFiles, provingFiles } from "./test/promises.ts";

type TestOptions = NonNullable<TestProjectInlineConfiguration["test"]>;

const everywhere: TestOptions = {
  /** What is waited for comes at once on an idle machine; a busy one is no failure. */
  expect: { poll: { timeout: 20_000 } },
  /** For what is started: where Node keeps compiled code by itself when a program asks it to. */
  env: { NODE_COMPILE_CACHE: join(tmpdir(), "node-compile-cache") },
};

/** Which files with processes run: `promises` and `cases` for those in test/promises.ts, `rest` for those without promises and unit tests. */
const part = process.env["RAMET_TEST_PART"] ?? "all";

/** The files of this part in directories below test/. */
function filesBelow(...directories: string[]): Pick<TestOptions, "include"> {
  const patterns = directories.map((directory) => `test/${directory}/**/*.test.ts`);
  if (part === "all") return { include: patterns };
  const listed = part === "cases" ? caseFiles : provingFiles;
  const proving = listed.filter((path) => directories.some((directory) => path.startsWith(`test/${directory}/`)));
  if (part !== "rest") return { include: proving };
  const others = globSync(patterns, { cwd: import.meta.dirname }).filter((path) => !proving.includes(path));
  return { include: shareOf(others) };
}

const preparations = ["test/setup/tools.ts", "test/setup/built-package.ts", "test/setup/shared-planes.ts"];

const unitFiles = [
  "{src,provider,components,policy,test/engine,test/fuzz,test/faults/long}/**/*.test.ts",
  "test/*.test.ts",
];

/** Files that start real processes: they wait for these much of the time, so two cores serve four of them. */
const withProcesses: TestOptions = {
  ...everywhere,
  globalSetup: preparations,
  testTimeout: 240_000,
  hookTimeout: 240_000,
  maxWorkers: 4,
  sequence: { groupOrder: 1 },
};

export default defineConfig({
  /** Kept by warm machines: the files that took longest in the last run start first. */
  cacheDir: join(cacheDirectory(), "vitest"),
  test: {
    reporters: reporters("default"),
    projects: [
      {
        test: {
          ...everywhere,
          name: "unit",
          /** A worker keeps the modules that it has loaded. Tests pass dependencies in, and modules have no state. */
          isolate: false,
          include: part === "rest" || part === "cases" ? [] : unitFiles,
          maxWorkers: 2,
          testTimeout: 30_000,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...withProcesses, name: "cluster", ...filesBelow("contract", "cluster", "hostile") } },
      {
        test: {
          ...withProcesses,
          name: "clients",
          ...filesBelow("clients"),
          globalSetup: [...preparations, "test/setup/interpreter-image.ts", "test/setup/shared-cluster.ts"],
        },
      },
      { test: { ...withProcesses, name: "program", ...filesBelow("program") } },
    ],
  },
});
