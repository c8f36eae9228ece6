import { createHash } from "node:crypto";
import { readdir, readFile, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { goArchitecture } from "../../base/machine.ts";
import { exists } from "../files.ts";
import { type GoBuild, packageRoot, type Tool } from "./tool.ts";

export const toolNames = ["etcd", "kube-apiserver", "runsc", "ramet-guest", "ramet-link"] as const;
/** `ramet-gofer` serves a disk whose files can share blocks. */
export type ToolName = (typeof toolNames)[number] | "ramet-gofer";

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
      return builtFromSources(name, "./guest", join(root, "native"), { experiment: "norandomizedheapbase64" });
    case "ramet-link":
      return builtFromSources(name, "./link", join(root, "native"));
    case "ramet-gofer":
      return builtFromSources(name, "./gofer", join(root, "native"));
  }
}

const unameArchitecture = process.arch === "x64" ? "x86_64" : "aarch64";

/** The digest for this machine. A checksum beside the download would not protect against a changed host. */
function pinnedDigest(digests: Record<"x64" | "arm64", string>): string | undefined {
  return process.arch === "x64" || process.arch === "arm64" ? digests[process.arch] : undefined;
}

function etcd(module: string): Tool {
  const version = "3.6.12";
  const base = `https://github.com/etcd-io/etcd/releases/download/v${version}`;
  return {
    name: "etcd",
    version,
    fits: (printed) => /^etcd Version: 3\.6\./m.test(printed),
    release: {
      url: `${base}/etcd-v${version}-linux-${goArchitecture}.tar.gz`,
      digest: pinnedDigest({
        x64: "sha256:d2564bb50b58e52fbaf3bde4a9561a1d04e20cdc761f795580e4d615d5d41355",
        arm64: "sha256:147afc710e164fa342ad8561bcca8903f3913bd9fb9ae0c83c857b1d868189cc",
      }),
      format: { kind: "tar.gz", strip: 1, members: [`etcd-v${version}-linux-${goArchitecture}/etcd`] },
    },
    build: { module, package: "go.etcd.io/etcd/server/v3", set: {}, coldSeconds: 80 },
  };
}

/** The archive for tests of controllers, because its publisher also has its digests in a repository. */
function kubeApiServer(module: string): Tool {
  const version = "1.36.3";
  // The newest archive of this minor version.
  const released = "envtest-v1.36.2";
  const symbol = "k8s.io/component-base/version";
  return {
    name: "kube-apiserver",
    version,
    fits: (printed) => /^Kubernetes v1\.36\./m.test(printed),
    release: {
      url: `https://github.com/kubernetes-sigs/controller-tools/releases/download/${released}/${released}-linux-${goArchitecture}.tar.gz`,
      digest: pinnedDigest({
        x64: "sha512:ea743186c8a799f5cf8faf16969f86189d003cb7d130e0ac4b58789f1e5748dcf30ebe91c837a10d5ac415383da3e10b9e64d65785c938c23e739781cfb76f08",
        arm64:
          "sha512:2d72ee985a8e262a3c57dc9f7f0fd891f6a8c7bf7ebaa2db6dc6d8eac8ae28181afe51c1f368b67756cdb40b10de9b205609e1726e5f27f7c6d824dd9c6649ac",
      }),
      format: { kind: "tar.gz", strip: 2, members: ["controller-tools/envtest/kube-apiserver"] },
    },
    build: {
      module,
      package: "k8s.io/kubernetes/cmd/kube-apiserver",
      set: { [`${symbol}.gitVersion`]: `v${version}`, [`${symbol}.gitMajor`]: "1", [`${symbol}.gitMinor`]: "36" },
      coldSeconds: 350,
    },
  };
}

/** The release, and the same version built from its sources. */
const runscRelease = "20260907.0";
const runscVersion = "20260905.0";

/** Whether a version that `runsc --version` prints is the one whose protocol `ramet-gofer` speaks. */
export function isPinnedRunsc(version: string): boolean {
  return version === `release-${runscRelease}` || version === runscVersion;
}

/** Since its release of 2026-08-31 gVisor consists of `runsc` and the side programs in `gvisor-bin`. */
function runsc(module: string): Tool {
  const version = runscVersion;
  const url = `https://storage.googleapis.com/gvisor/releases/release/${runscRelease}/${unameArchitecture}/gvisor.tar.zstd`;
  return {
    name: "runsc",
    version,
    fits: runscFits,
    release: {
      url,
      digest: pinnedDigest({
        x64: "sha256:e32ed48a2ddc7c0ef5e922ff5d52e33b6fccc75b61fd4c40a0bd9bdfe90032e6",
        arm64: "sha256:f3ba93a1a83dd4b6a322237030cdf81a278d9ef4e01ae6218ba69fbc479fdfb2",
      }),
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
  return exists(join(dirname(await realpath(path)), "gvisor-bin", "gvisor_sentry"));
}

/**
 * A program that is built from sources of this repository: `directory` of a Go module at `module`. It is rebuilt when the sources or
 * the build options change.
 */
export async function builtFromSources(
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
    .filter((path) => !ofTests.test(path.slice(module.length)))
    .sort();
  const hash = createHash("sha256").update(how);
  for (const path of paths) {
    const content = await readFile(path);
    hash.update(`${path.slice(module.length)}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex").slice(0, 16);
}

/** The published package does not have these directories, and the digest must be the same there and in the repository. */
const ofTests = /\/(testdata|fuzzcheck)\//;

function isSource(name: string): boolean {
  if (name.endsWith("_test.go")) return false;
  // A program embeds JSON files.
  return /\.(go|s|json)$/.test(name) || name === "go.mod" || name === "go.sum";
}
