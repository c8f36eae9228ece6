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
  ["tools", "test/contract/chart", "test/contract/kstatus", "test/tools/kubelet", "tools/external-snapshotter"],
  ["test/tools", "test/contract/alerts", "test/tools/containerd", "test/tools/csi-sanity"],
])("%s and modules like it have the same versions, so that their packages are compiled once", async (...modules) => {
  const pinned = new Map<string, Set<string>>();
  for (const module of modules) {
    for (const [name, version] of await versionsIn(module)) {
      pinned.set(name, (pinned.get(name) ?? new Set()).add(version));
    }
  }
  const different = [...pinned].flatMap(([name, versions]) => (versions.size > 1 ? [name] : []));
  // gVisor is written against an earlier one than the kubelet, and external-snapshotter against a later one.
  const own = ["github.com/opencontainers/runtime-spec", "github.com/container-storage-interface/spec"];
  expect(different.filter((name) => !own.includes(name))).toEqual([]);
});

/** The version of each dependency, by its name: that of its replacement, if it has one. */
async function versionsIn(module: string): Promise<Map<string, string>> {
  const text = await readFile(join(packageRoot(), module, "go.mod"), "utf8");
  const read = (line: RegExp) =>
    [...text.matchAll(line)].map(([, name = "", version = ""]): [string, string] => [name, version]);
  const required = read(/^(?:require)?\s+(\S+) (v\S+)/gm);
  const replaced = new Map(read(/^(?:replace)?\s+(\S+) => \S+ (v\S+)/gm));
  return new Map(required.map(([name, version]) => [name, replaced.get(name) ?? version]));
}
