// Downloads the CRDs of external-snapshotter from its Go module to dist/, with a pinned version and checksum: docs/decisions/0010.
import { spawnSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";

const pinned = {
  module: "github.com/kubernetes-csi/external-snapshotter/client/v8",
  version: "v8.6.0",
  // The format of `go mod download -json` and of go.sum.
  sum: "h1:FtGewu2k6HWw6evLGXY8JqUZ9eHpti1kd3e4amj+ilA=",
};

const directory = join(dirname(dirname(fileURLToPath(import.meta.url))), "dist", "external-snapshotter");
const path = join(directory, "crds.json");

/** @returns {string | undefined} why the CRDs are missing */
export function makeSnapshotCrds() {
  if (existsSync(path) && JSON.parse(readFileSync(path, "utf8")).sum === pinned.sum) return undefined;
  rmSync(directory, { recursive: true, force: true });
  const { dir, problem } = download();
  if (dir === undefined) return problem;
  const crds = globSync("config/crd/*_*.yaml", { cwd: dir })
    .sort()
    .map((file) => parse(readFileSync(join(dir, file), "utf8")));
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "LICENSE"), readFileSync(join(dir, "LICENSE")));
  writeFileSync(`${path}.new`, JSON.stringify({ ...pinned, crds }));
  renameSync(`${path}.new`, path);
  return undefined;
}

function download() {
  const go = ["/usr/local/go/bin/go"].find(existsSync) ?? "go";
  // The same cache as in src/local/tools.
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "ramet", "go");
  const modules = process.env.GOPATH ? {} : { GOMODCACHE: process.env.GOMODCACHE || join(cache, "pkg", "mod") };
  const { error, stdout, stderr } = spawnSync(go, ["mod", "download", "-json", `${pinned.module}@${pinned.version}`], {
    cwd: tmpdir(),
    encoding: "utf8",
    // The checksum is pinned above, so no checksum database is needed.
    env: { ...process.env, ...modules, GOFLAGS: "-modcacherw", GONOSUMDB: pinned.module, GOTOOLCHAIN: "local" },
    timeout: 120_000,
  });
  if (error !== undefined) return { problem: `${go}: ${error.message}` };
  const { Dir: dir, Sum: sum, Error: refusal } = JSON.parse(stdout || "{}");
  if (dir === undefined) return { problem: refusal ?? stderr.trim() };
  if (sum !== pinned.sum) return { problem: `the checksum of ${pinned.module} is ${sum}, but ${pinned.sum} is pinned` };
  return { dir };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problem = makeSnapshotCrds();
  if (problem !== undefined) {
    console.error(`The CRDs of external-snapshotter are missing: ${problem}`);
    process.exitCode = 1;
  }
}
