import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { acquireTools, type AcquireOptions } from "./acquire-tools.ts";
import { pinnedTool, type ToolName } from "./pinned-tools.ts";

let dir: string;
let lines: string[];
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "ramet-tools-"));
  lines = [];
});
afterEach(() => rm(dir, { recursive: true, force: true }));

/** A stand-in program that only prints its version, for tests of the search. */
async function program(directory: string, name: string, printed: string): Promise<string> {
  await mkdir(join(dir, directory), { recursive: true });
  const path = join(dir, directory, name);
  await writeFile(path, `#!/bin/sh\necho '${printed}'\n`);
  await chmod(path, 0o755);
  return path;
}

function acquire<Name extends ToolName>(
  names: readonly Name[],
  options: Partial<AcquireOptions<Name>> = {},
): Promise<Record<Name, string>> {
  return acquireTools({
    names,
    cacheDir: join(dir, "cache"),
    progress: (line) => lines.push(line),
    environment: { PATH: join(dir, "bin"), KUBEBUILDER_ASSETS: join(dir, "assets") },
    ...options,
  });
}

it("prefers a suitable program in PATH to one in KUBEBUILDER_ASSETS", async () => {
  const etcd = await program("bin", "etcd", "etcd Version: 3.6.9");
  const server = await program("assets", "kube-apiserver", "Kubernetes v1.36.1");
  await program("assets", "etcd", "etcd Version: 3.6.12");
  expect(await acquire(["etcd", "kube-apiserver"])).toEqual({ etcd, "kube-apiserver": server });
  expect(lines.join("\n")).toContain(`etcd 3.6.12 (tool 1 of 2): found in PATH: ${etcd}`);
});

it("skips and reports an unsuitable version", async () => {
  const old = await program("bin", "etcd", "etcd Version: 3.5.1");
  const fitting = await program("assets", "etcd", "etcd Version: 3.6.1");
  expect(await acquire(["etcd"])).toEqual({ etcd: fitting });
  expect(lines.join("\n")).toContain(`skipped ${old}`);
});

it("counts each tool among all that are acquired", async () => {
  await program("bin", "etcd", "etcd Version: 3.6.9");
  await acquire(["etcd"], { all: ["ramet-link", "etcd", "runsc"] });
  expect(lines.join("\n")).toContain("etcd 3.6.12 (tool 2 of 3): found");
});

it.each([
  ["runsc version release-20260907.0", true],
  ["runsc version 20260905.0", true],
  ["runsc version release-20260817.0", false],
  ["runsc version VERSION_MISSING", false],
])("checks the version of a runsc that prints %s", async (printed, fits) => {
  const offered = await program("bin", "runsc", printed);
  const cached = await program("cache/tools/runsc/20260905.0", "runsc", "");
  expect(await acquire(["runsc"])).toEqual({ runsc: fits ? offered : cached });
});

it("requires the side programs of a runsc that does not run without them", async () => {
  const offered = await program("bin", "runsc", "runsc version release-20261102.0");
  const cached = await program("cache/tools/runsc/20260905.0", "runsc", "");
  expect(await acquire(["runsc"])).toEqual({ runsc: cached });
  await program("bin/gvisor-bin", "gvisor_sentry", "");
  expect(await acquire(["runsc"])).toEqual({ runsc: offered });
});

it("names every missing tool and every remedy in one error", async () => {
  const environment = { PATH: join(dir, "bin"), HTTPS_PROXY: "http://127.0.0.1:9" };
  const failure = acquire(["etcd", "kube-apiserver"], { environment, findGo: () => Promise.resolve(undefined) });
  await expect(failure).rejects.toMatchObject({
    code: "ToolMissing",
    message: expect.stringMatching(/(?=.*etcd: )(?=.*kube-apiserver: )/s) as string,
    hint: expect.stringMatching(/PATH.*KUBEBUILDER_ASSETS.*Go 1\.26.*internet/s) as string,
  });
  expect(await readdir(join(dir, "cache/tools/etcd"))).toEqual([]);
});

it.each(["etcd", "kube-apiserver", "runsc"] as const)("has a digest of the release of %s", async (name) => {
  const { release } = await pinnedTool(name);
  expect(release?.digest).toMatch(/^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/);
});
