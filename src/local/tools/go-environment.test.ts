import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { findGo } from "./go-build.ts";
import { goEnvironment } from "./acquire-tools.ts";
import { runProgram } from "./run-program.ts";

const go = await findGo(process.env);
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-go-"));
});
// Go's telemetry may still be writing after `go` has ended.
afterEach(() => rm(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));

/** The directories that `go env` reports. */
async function places(environment: NodeJS.ProcessEnv): Promise<Record<string, string>> {
  const own = { GOPATH: "", GOMODCACHE: "", GOCACHE: "", GOENV: "", ...(environment as Record<string, string>) };
  const names = ["GOPATH", "GOMODCACHE", "GOCACHE", "GOTELEMETRYDIR", "GOPROXY"];
  const { stdout } = await runProgram(go ?? "", ["env", "-json", ...names], {
    environment: { ...own, ...goEnvironment(join(directory, "cache"), own) },
  });
  return JSON.parse(stdout) as Record<string, string>;
}

it.skipIf(go === undefined)("keeps all that Go writes in the cache, and reads the user's settings", async () => {
  const home = join(directory, "home");
  await mkdir(join(home, ".config", "go"), { recursive: true });
  await writeFile(join(home, ".config", "go", "env"), "GOPROXY=https://proxy.example\n");
  expect(await places({ HOME: home, XDG_CONFIG_HOME: "", GOPROXY: "" })).toEqual({
    GOPATH: join(directory, "cache", "go"),
    GOMODCACHE: join(directory, "cache", "go", "pkg", "mod"),
    GOCACHE: join(directory, "cache", "go", "build"),
    GOTELEMETRYDIR: join(directory, "cache", "go", "config", "go", "telemetry"),
    GOPROXY: "https://proxy.example",
  });
});

it("keeps directories that the user has set", () => {
  const given = { GOMODCACHE: "/warm/mod", GOCACHE: "/warm/build", GOENV: "off" };
  expect(goEnvironment("/cache", given)).toMatchObject({ ...given, GOPATH: "/cache/go" });
  expect(goEnvironment("/cache", { GOPATH: "/mine:/other" })).toMatchObject({ GOMODCACHE: "/mine/pkg/mod" });
});
