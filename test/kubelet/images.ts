import { createHash } from "node:crypto";
import { access, cp, mkdir, realpath, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDirectory } from "../../src/local/tools/tool.ts";
import { findGo } from "../../src/local/tools/go-build.ts";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { ensurePythonImage } from "../../src/local/images/python-image.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * The images in the cluster: those of images/Dockerfile, the cell image with another gVisor and another guest, a template's, the
 * pause image, and external-snapshotter's.
 */
export const imageNames = {
  controller: "localhost/ramet:test",
  cell: "localhost/ramet-cell:test",
  otherCell: "localhost/ramet-cell:other",
  python: "localhost/python:test",
  pause: "localhost/pause:test",
  snapshotController: "registry.k8s.io/sig-storage/snapshot-controller:v8.6.0",
} as const;

/** An image that only the cluster's registries have, and how it is started. */
export const registryImage = {
  repository: "tools/app",
  entrypoint: ["/bin/sh", "-c"],
  cmd: ["echo $GREETING $(id -un):$(id -gn) in $(pwd) > /tmp/said; sleep infinity"],
  settings: ["--env", "GREETING=hello", "--user", "daemon:mail", "--workingdir", "/usr/share"],
} as const;

/** Pushes an image of the cache to a registry that serves HTTP, as `registryImage.repository` with a tag. */
export async function pushImage(host: string, tag: string, name: "app" | "other" = "app"): Promise<void> {
  const buildah = await openBuildah();
  const target = `docker://${host}/${registryImage.repository}:${tag}`;
  await buildah.run("push", "--quiet", "--tls-verify=false", `localhost/ramet-registry-${name}`, target);
}

/**
 * Builds the images and writes them into one OCI archive in `directory`. `images/Dockerfile` is built as users build it, except for
 * its bases, so that no registry is needed: Debian with Node and Debian with Go stand in for `node:22-bookworm-slim` and
 * `golang:1.26-bookworm`. External-snapshotter's image is a stand-in too, with only its program.
 * @returns the path of the archive
 */
export async function buildImages(
  directory: string,
  programs: Record<"snapshot-controller" | "other-runsc" | "other-guest", string>,
  progress: (line: string) => void,
): Promise<string> {
  const buildah = await openBuildah();
  const python = await ensurePythonImage({ progress });
  const go = await goRoot();
  const key = digestOf([python.digest, process.version, go.version, ...certificates()]);
  const base = (name: string): string => `localhost/ramet-base-${name}:${key}`;
  const bases = { debian: base("debian"), node: base("node"), go: base("go") };
  progress("images: base images");
  await buildah.compose(bases.debian, "scratch", [[python.rootPath, "/"]]);
  const link = ["ln", "-s", "../lib/node_modules/npm/bin/npm-cli.js", "/usr/local/bin/npm"];
  await buildah.compose(bases.node, bases.debian, await nodeFiles(), { run: link });
  await buildah.compose(bases.go, bases.debian, [[go.path, "/usr/local/go"]]);
  // The pause image only has to keep running.
  await buildah.compose(base("pause"), bases.debian, [], { entrypoint: ["sleep", "infinity"] });
  await buildah.run("tag", bases.debian, imageNames.python);
  await buildah.run("tag", base("pause"), imageNames.pause);
  const { entrypoint, cmd, settings } = registryImage;
  for (const [name, command] of [
    ["app", cmd],
    ["other", ["exit 1"]],
  ] as const) {
    const versioned = base(`registry-${name}`);
    await buildah.compose(versioned, bases.debian, [], { entrypoint: [...entrypoint], cmd: command, settings });
    await buildah.run("tag", versioned, `localhost/ramet-registry-${name}`);
  }
  const snapshotController = base(imageNames.snapshotController.replace(/.*\/(.*):/, "$1-"));
  const path = "/snapshot-controller";
  await buildah.compose(snapshotController, "scratch", [[programs["snapshot-controller"], path]], {
    entrypoint: [path],
  });
  await buildah.run("tag", snapshotController, imageNames.snapshotController);
  for (const target of ["controller", "cell"] as const) {
    progress(`images: ${target}, from images/Dockerfile`);
    await buildah.build(target, imageNames[target], bases);
  }
  progress("images: cell with another engine");
  const engine = { runsc: programs["other-runsc"], "ramet-guest": programs["other-guest"] };
  await buildah.replace(imageNames.otherCell, imageNames.cell, engine, join(directory, "other-cell"));
  progress("images: archive");
  const [layout, archive] = [join(directory, "images"), join(directory, "images.tar")];
  // The images share most of their layers, so one archive is a third of the size of several.
  const fast = ["--compression-format", "zstd", "--compression-level", "1"];
  for (const name of Object.values(imageNames)) {
    await buildah.run("push", "--quiet", ...fast, name, `oci:${layout}:${name}`);
  }
  await runProgram("tar", ["-cf", archive, "-C", layout, "."]);
  await rm(layout, { recursive: true });
  // Removes what builds that failed have left, and then images of earlier runs that no image is built from.
  await buildah.run("rm", "--all");
  await buildah.run("rmi", "--prune");
  return archive;
}

interface Buildah {
  run(...args: string[]): Promise<string>;
  /** Builds an image from another one and more files, unless an image of that name exists. */
  compose(name: string, from: string, files: [string, string][], more?: Composition): Promise<void>;
  build(target: string, name: string, bases: { node: string; go: string }): Promise<void>;
  /** Builds an image from another one and one layer with these programs of /usr/local/bin. */
  replace(name: string, from: string, programs: Record<string, string>, context: string): Promise<void>;
}

interface Composition {
  /** A command to run once in the image. */
  run?: string[];
  entrypoint?: string[];
  cmd?: readonly string[];
  /** Further arguments of `buildah config`. */
  settings?: readonly string[];
}

/** Opens Buildah with its own storage in the cache, so that unchanged images are built only once. */
async function openBuildah(): Promise<Buildah> {
  const storage = join(cacheDirectory(), "test-images");
  await mkdir(storage, { recursive: true });
  const run = async (...args: string[]): Promise<string> => {
    const places = ["--root", join(storage, "root"), "--runroot", join(storage, "run"), "--storage-driver", "overlay"];
    const { stdout } = await runProgram("buildah", [...places, ...args], {
      cwd: root,
      what: `buildah ${args[0] ?? ""}`,
    });
    return stdout.trim();
  };
  return {
    run,
    async compose(name, from, files, more = {}) {
      if ((await run("images", "--quiet", "--filter", `reference=${name}`)) !== "") return;
      const container = await run("from", "--pull-never", from);
      for (const [source, target] of files) await run("copy", "--quiet", container, source, target);
      if (more.run) await run("run", "--isolation", "chroot", container, "--", ...more.run);
      const path = "/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
      const settings = ["--env", `PATH=${path}`, ...certificates().flatMap((entry) => ["--env", entry])];
      await run(
        "config",
        ...settings,
        ...(more.entrypoint ? ["--entrypoint", JSON.stringify(more.entrypoint)] : []),
        ...(more.cmd ? ["--cmd", JSON.stringify(more.cmd)] : []),
        ...(more.settings ?? []),
        container,
      );
      await run("commit", "--quiet", "--rm", container, name);
    },
    async build(target, name, { node, go }) {
      const bases = ["--build-arg", `NODE_IMAGE=${node}`, "--build-arg", `GO_IMAGE=${go}`];
      const dockerfile = ["--file", "images/Dockerfile", "--ignorefile", "images/Dockerfile.dockerignore"];
      const how = ["--isolation", "chroot", "--layers", "--pull-never", ...(await machineSettings())];
      await run("build", ...how, ...bases, ...dockerfile, "--target", target, "--tag", name, ".");
    },
    async replace(name, from, programs, context) {
      await mkdir(context);
      for (const [program, path] of Object.entries(programs)) {
        await cp(await realpath(path), join(context, program), { preserveTimestamps: true });
      }
      const dockerfile = join(context, "Dockerfile");
      await writeFile(dockerfile, `FROM ${from}\nCOPY ${Object.keys(programs).join(" ")} /usr/local/bin/\n`);
      await run("build", "--layers", "--pull-never", "--file", dockerfile, "--tag", name, context);
    },
  };
}

/** Builds use this machine's settings and caches of npm and Go. */
async function machineSettings(): Promise<string[]> {
  const home = homedir();
  const paths = [".npmrc", ".config/go", ".cache/ramet"].map((path) => join(home, path));
  const authority = process.env["NODE_EXTRA_CA_CERTS"];
  const existing = await Promise.all(
    [...paths, ...(authority === undefined ? [] : [authority])].map((path) =>
      access(path).then(
        () => [path],
        () => [],
      ),
    ),
  );
  return existing.flat().flatMap((path) => ["--volume", `${path}:${path}`]);
}

function certificates(): string[] {
  const authority = process.env["NODE_EXTRA_CA_CERTS"];
  return authority === undefined ? [] : [`NODE_EXTRA_CA_CERTS=${authority}`, `SSL_CERT_FILE=${authority}`];
}

/** The Node that runs this, and the npm in PATH. */
async function nodeFiles(): Promise<[string, string][]> {
  const { stdout } = await runProgram("which", ["npm"]);
  const npm = dirname(dirname(await realpath(stdout.trim())));
  return [
    [process.execPath, "/usr/local/bin/node"],
    [npm, "/usr/local/lib/node_modules/npm"],
  ];
}

async function goRoot(): Promise<{ path: string; version: string }> {
  const go = (await findGo(process.env)) ?? "go";
  const { stdout } = await runProgram(go, ["env", "GOROOT", "GOVERSION"], { cwd: dirname(root) });
  const [path = "", version = ""] = stdout.trim().split("\n");
  return { path, version };
}

function digestOf(parts: string[]): string {
  return createHash("sha256").update(parts.join("\n")).digest("hex").slice(0, 16);
}
