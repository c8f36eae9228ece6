import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { goEnvironment } from "./acquire-tools.ts";
import { findGo, goModuleSources } from "./go-build.ts";
import { packageRoot } from "./tool.ts";

const go = await findGo(process.env);
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-go-"));
  vi.stubEnv("HOME", directory);
  for (const name of ["GOPATH", "GOMODCACHE", "GOENV", "XDG_CONFIG_HOME"]) vi.stubEnv(name, undefined);
  vi.stubEnv("GOPROXY", "https://proxy.example,direct");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(directory, { recursive: true, force: true });
});

const sources = () => goModuleSources(go ?? "", goEnvironment(join(directory, "cache"), process.env));

it.skipIf(go === undefined)("reads modules that the user has before it asks the user's proxy", async () => {
  expect(await sources()).toBe("https://proxy.example,direct");
  const downloads = join(directory, "go", "pkg", "mod", "cache", "download");
  await mkdir(downloads, { recursive: true });
  expect(await sources()).toBe(`file://${downloads},https://proxy.example,direct`);
});

it("the gofer has the protocol of the gVisor that runs the sandboxes", async () => {
  const [tools, native] = await Promise.all(
    ["tools", "native"].map((module) => readFile(join(packageRoot(), module, "go.mod"), "utf8")),
  );
  const gvisor = /gvisor\.dev\/gvisor (\S+)/;
  expect(gvisor.exec(native ?? "")?.[1]).toBe(gvisor.exec(tools ?? "")?.[1] ?? "none");
});

it.each([
  ["tools", "test/tools/kubelet"],
  [
    "tools/external-snapshotter",
    "test/contract/alerts",
    "test/contract/chart",
    "test/tools",
    "test/tools/containerd",
    "test/tools/csi-sanity",
  ],
])("%s and modules like it have the same versions, so that their packages are compiled once", async (...modules) => {
  const pinned = new Map<string, Set<string>>();
  for (const module of modules) {
    const text = await readFile(join(packageRoot(), module, "go.mod"), "utf8");
    for (const [, name = "", version = ""] of text.matchAll(/^(?:require)?\s+(\S+) (v\S+)/gm)) {
      pinned.set(name, (pinned.get(name) ?? new Set()).add(version));
    }
  }
  expect([...pinned].filter(([, versions]) => versions.size > 1)).toEqual([]);
});
