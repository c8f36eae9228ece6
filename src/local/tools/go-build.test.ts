import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { cacheDirectory } from "./tool.ts";
import { findGo, goBuild } from "./go-build.ts";
import { goEnvironment } from "./acquire-tools.ts";
import { runProgram } from "./run-program.ts";

const go = await findGo(process.env);
let module: string;
beforeEach(async () => {
  module = await mkdtemp(join(tmpdir(), "ramet-go-build-"));
  await writeFile(join(module, "go.mod"), "module example.test/hello\n\ngo 1.21\n");
  await writeFile(join(module, "main.go"), "package main\n\nfunc main() {}\n");
});
afterEach(() => rm(module, { recursive: true, force: true }));

it.skipIf(go === undefined).each([
  { experiment: "fieldtrack", kept: "GOEXPERIMENT=fieldtrack" },
  { experiment: "unheard-of", kept: undefined },
])("builds with the experiment $experiment if Go supports it", { timeout: 180_000 }, async ({ experiment, kept }) => {
  const environment = goEnvironment(cacheDirectory(), process.env);
  const output = join(module, "hello");
  await goBuild(go ?? "", { module, package: ".", set: {}, coldSeconds: 1, experiment }, output, { environment });
  const { stdout } = await runProgram(go ?? "", ["version", "-m", output], { environment });
  expect(/GOEXPERIMENT=\S+/.exec(stdout)?.[0]).toBe(kept);
});
