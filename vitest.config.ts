import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { cacheDirectory } from "./src/local/tools/tool.ts";

type TestOptions = NonNullable<TestProjectInlineConfiguration["test"]>;

const everywhere: TestOptions = {
  /** What is waited for comes at once on an idle machine; a busy one is no failure. */
  expect: { poll: { timeout: 20_000 } },
  /** For what is started: where Node keeps compiled code by itself when a program asks it to. */
  env: { NODE_COMPILE_CACHE: join(tmpdir(), "node-compile-cache") },
};

const preparations = ["test/setup/tools.ts", "test/setup/built-package.ts", "test/setup/shared-planes.ts"];

/** Files that start real processes: while one waits for its own, others compute. */
const withProcesses: TestOptions = {
  ...everywhere,
  globalSetup: preparations,
  testTimeout: 240_000,
  hookTimeout: 240_000,
  maxWorkers: 3,
  sequence: { groupOrder: 1 },
};

export default defineConfig({
  /** Kept by warm machines: the files that took longest in the last run start first. */
  cacheDir: join(cacheDirectory(), "vitest"),
  test: {
    projects: [
      {
        test: {
          ...everywhere,
          name: "unit",
          /** A worker keeps the modules that it has loaded. Tests pass dependencies in, and modules have no state. */
          isolate: false,
          include: ["{src,provider,components,policy,test/engine,test/fuzz,test/faults/long}/**/*.test.ts"],
          maxWorkers: 2,
          testTimeout: 30_000,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...withProcesses, name: "cluster", include: ["test/{contract,cluster,hostile}/**/*.test.ts"] } },
      {
        test: {
          ...withProcesses,
          name: "clients",
          include: ["test/clients/**/*.test.ts"],
          globalSetup: [...preparations, "test/setup/interpreter-image.ts", "test/setup/shared-cluster.ts"],
        },
      },
      { test: { ...withProcesses, name: "program", include: ["test/program/**/*.test.ts"] } },
    ],
  },
});
