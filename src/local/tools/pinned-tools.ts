import { createHash } from "node:crypto";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type GoBuild, packageRoot, type Tool } from "./tool.ts";

export const toolNames = ["etcd", "kube-apiserver", "runsc", "ramet-guest", "ramet-link"] as const;
export type ToolName = (typeof toolNames)[number];

/** The pinned version of each tool for this machine's architecture. The Go modules' versions are in `tools/go.mod`. */
export async function pinnedTool(name: ToolName): Promise<Tool> {
  const root = packageRoot();
  switch (name) {
    case "etcd":
      return etcd(join(root, "tools"));
    case "kube-apiserver":
      return kubeApiServer(join(root, "tools"));
    case "runsc":
      return runsc(join(root, "tools"));
    case "ramet-guest":
      // A randomized heap address costs 2 MiB more in every second sandbox, because gVisor backs 2 MiB at a time. Go
      // randomizes it to protect programs with C code; the guest has none.
      return native(name, "./guest", join(root, "native"), { experiment: "norandomizedheapbase64" });
    case "ramet-link":
      return native(name, "./link", join(root, "native"));
  }
}

const goArchitecture = process.arch === "x64" ? "amd64" : process.arch;
const unameArchitecture = process.arch === "x64" ? "x86_64" : "aarch64";

function etcd(module: string): Tool {
  const version = "3.6.12";
  const base = `https://github.com/etcd-io/etcd/releases/download/v${version}`;
  return {
    name: "etcd",
    version,
    fits: (printed) => /^etcd Version: 3\.6\./m.test(printed),
    release: {
      url: `${base}/etcd-v${version}-linux-${goArchitecture}.tar.gz`,
      checksum: { url: `${base}/SHA256SUMS`, algorithm: "sha256" },
      format: { kind: "tar.gz", strip: 1, members: [`etcd-v${version}-linux-${goArchitecture}/etcd`] },
    },
    build: { module, package: "go.etcd.io/etcd/server/v3", set: {}, coldSeconds: 80 },
  };
}

function kubeApiServer(module: string): Tool {
  const version = "1.36.3";
  const url = `https://dl.k8s.io/v${version}/bin/linux/${goArchitecture}/kube-apiserver`;
  const symbol = "k8s.io/component-base/version";
  return {
    name: "kube-apiserver",
    version,
    fits: (printed) => /^Kubernetes v1\.36\./m.test(printed),
    release: { url, checksum: { url: `${url}.sha512`, algorithm: "sha512" }, format: { kind: "program" } },
    build: {
      module,
      package: "k8s.io/kubernetes/cmd/kube-apiserver",
      set: { [`${symbol}.gitVersion`]: `v${version}`, [`${symbol}.gitMajor`]: "1", [`${symbol}.gitMinor`]: "36" },
      coldSeconds: 350,
    },
  };
}

/** Since its release of 2026-08-31 gVisor consists of `runsc` and the side programs in `gvisor-bin`. */
function runsc(module: string): Tool {
  const version = "20260905.0";
  const release = "20260907";
  const url = `https://storage.googleapis.com/gvisor/releases/release/${release}/${unameArchitecture}/gvisor.tar.zstd`;
  return {
    name: "runsc",
    version,
    fits: runscFits,
    release: {
      url,
      checksum: { url: `${url}.sha512`, algorithm: "sha512" },
      format: { kind: "tar.zst", strip: 0, members: ["runsc", "gvisor-bin"] },
    },
    build: {
      module,
      package: "gvisor.dev/gvisor/runsc",
      set: { "gvisor.dev/gvisor/runsc/version.version": version },
      coldSeconds: 75,
    },
  };
}

/**
 * Accepts builds since 2026-08-31, the oldest with the side programs and the checkpoint format that Ramet is tested with. A
 * build after 2026-09 does not run without its side programs (`runsc flags`, sidecar-usage-policy).
 */
async function runscFits(printed: string, path: string): Promise<boolean> {
  const date = Number(/^runsc version (?:release-)?(\d{8})/m.exec(printed)?.[1] ?? 0);
  if (date < 20260831) return false;
  if (date < 20261001) return true;
  const sentry = join(dirname(await realpath(path)), "gvisor-bin", "gvisor_sentry");
  return stat(sentry).then(
    (found) => found.isFile(),
    () => false,
  );
}

/** Ramet's own programs, built from this package's sources. They are rebuilt when the sources or the build options change. */
async function native(
  name: string,
  directory: string,
  module: string,
  how: Pick<GoBuild, "experiment"> = {},
): Promise<Tool> {
  const version = await sourceDigest(module, how.experiment);
  const set = { "main.version": version };
  return { name, version, build: { module, package: directory, set, coldSeconds: 30, ...how } };
}

/** 16 hex digits of a hash of a Go module's source files, without tests, and of `how`. */
async function sourceDigest(module: string, how = ""): Promise<string> {
  const entries = await readdir(module, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile() && isSource(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const hash = createHash("sha256").update(how);
  for (const path of paths) {
    const content = await readFile(path);
    hash.update(`${path.slice(module.length)}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex").slice(0, 16);
}

function isSource(name: string): boolean {
  if (name.endsWith("_test.go")) return false;
  // A program embeds JSON files.
  return /\.(go|s|json)$/.test(name) || name === "go.mod" || name === "go.sum";
}
