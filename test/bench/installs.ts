import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import { systemClock } from "../../src/base/clock.ts";
import { imagesDirectory } from "../../src/local/images/build-once.ts";
import { openImageStore } from "../../src/local/images/image-store.ts";
import { pythonRootPath } from "../setup/python-image.ts";
import { stopwatch } from "./figure.ts";
import { runInSandbox } from "./in-sandbox.ts";
import { type LocalCluster, namespace } from "./local-cluster.ts";
import { summary, type Summary } from "./samples.ts";

const run = promisify(execFile);

const npm =
  "cd /root && cp -r /inputs/project . && cd project && /inputs/node /inputs/npm/bin/npm-cli.js ci " +
  "--offline --ignore-scripts --no-audit --no-fund --silent --cache /inputs/npm-cache";

/**
 * What agents install, in a sandbox. Everything is in the image, so that no network is measured. `npm ci` of all packages of this
 * repository needs 1.6 GiB of memory on any Linux, so it does not run with 512 MiB.
 */
export const installs = {
  "pip install":
    "pip install --no-index --no-cache-dir --quiet --find-links /inputs/wheels --target /root/pip -r /inputs/pip.txt",
  "npm ci --omit=dev": `${npm} --omit=dev`,
  "npm ci": npm,
  "git clone": "git clone --quiet file:///inputs/repository.git /root/repository",
} as const;

export type Install = keyof typeof installs;

/** Where the files go: on disk with little or much memory, or in the sandbox's memory. */
const places = {
  "disk, 512 MiB": { memory: "512Mi", annotations: {} },
  disk: { memory: "10Gi", annotations: {} },
  memory: { memory: "10Gi", annotations: { "ramet.dev/writable-layer": "memory" } },
} as const;

export type Place = keyof typeof places;

export interface InstallTime {
  install: Install;
  place: Place;
  /** Used disk space afterwards, by `du`. */
  mebibytes: number;
  files: number;
  seconds: Summary;
}

/** @throws Error if a command fails */
export async function measureInstalls(cluster: LocalCluster, n: number, signal: AbortSignal): Promise<InstallTime[]> {
  const image = await installsImage(signal);
  const measured = new Map<string, { seconds: number[]; mebibytes: number; files: number }>();
  try {
    for (let turn = 0; turn < n; turn++) {
      for (const [install, place] of pairs()) {
        signal.throwIfAborted();
        process.stderr.write(`\rinstalls: ${install}, ${place}, ${turn + 1}/${n}          `);
        const sandbox = await create(cluster, `installs-${turn}`, place);
        const elapsed = stopwatch();
        await runInSandbox(cluster, sandbox, installs[install], 600_000);
        const seconds = elapsed() / 1000;
        const counted = "du -sm /root | cut -f1; find /root | wc -l";
        const [mebibytes = 0, files = 0] = (await runInSandbox(cluster, sandbox, counted)).split(/\s+/).map(Number);
        await cluster.remove(cluster.cluster.sandboxes, sandbox);
        const key = `${install}/${place}`;
        measured.set(key, { seconds: [...(measured.get(key)?.seconds ?? []), seconds], mebibytes, files });
      }
    }
  } finally {
    process.stderr.write("\r\x1b[K");
    await image.remove();
  }
  return pairs().map(([install, place]) => {
    const { seconds, ...size } = measured.get(`${install}/${place}`)!;
    return { install, place, ...size, seconds: summary(seconds)! };
  });
}

function pairs(): (readonly [Install, Place])[] {
  const names = Object.keys(installs) as Install[];
  const all = names.flatMap((install) => (Object.keys(places) as Place[]).map((place) => [install, place] as const));
  return all.filter(([install, place]) => install !== "npm ci" || place !== "disk, 512 MiB");
}

async function create(cluster: LocalCluster, name: string, place: Place): Promise<Sandbox> {
  const { memory, annotations } = places[place];
  const limits = { cpu: "2", memory, "ephemeral-storage": "10Gi" };
  const main = { name: "main", image: imageName, command: ["sleep", "infinity"], resources: { limits } };
  const created = await cluster.cluster.sandboxes.create({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { name, namespace },
    spec: { template: { metadata: { annotations }, spec: { containers: [main] } } },
  });
  return cluster.untilReady(created);
}

const imageName = "bench-installs";

/** Makes an image with wheels of about 500 MB, the npm packages of this repository, and a repository with their files. */
async function installsImage(signal: AbortSignal) {
  const directory = await mkdtemp(join(tmpdir(), "ramet-installs-"));
  const store = openImageStore({ dir: imagesDirectory(), clock: systemClock, progress: () => undefined });
  const remove = async (): Promise<void> => {
    await rm(directory, { recursive: true, force: true });
    await store.remove(imageName);
    await store.sweep();
  };
  try {
    const root = join(directory, "root");
    await run("cp", ["-a", await pythonRootPath(), root], { signal });
    const inputs = join(root, "inputs");
    await mkdir(inputs);
    await writeFile(join(inputs, "pip.txt"), packages.map((name) => `${name}\n`).join(""));
    await addWheels(join(inputs, "wheels"), signal);
    await addProject(inputs, directory, signal);
    await store.add(imageName, root, { signal });
    return { remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

const packages = ["numpy", "scipy", "pandas", "scikit-learn", "matplotlib", "pyarrow", "jupyterlab", "statsmodels"];

async function addWheels(target: string, signal: AbortSignal): Promise<void> {
  const image = [
    "--python-version",
    "3.11",
    "--platform",
    "manylinux_2_28_x86_64",
    "--platform",
    "manylinux2014_x86_64",
  ];
  const wheels = ["--only-binary=:all:", "--quiet", "--disable-pip-version-check", "--dest", target];
  await run("python3", ["-m", "pip", "download", ...wheels, ...image, ...packages], { signal });
  if ((await readdir(target)).length < packages.length) throw new Error("pip has not downloaded all packages");
}

async function addProject(inputs: string, directory: string, signal: AbortSignal): Promise<void> {
  const project = join(inputs, "project");
  await mkdir(project);
  for (const name of ["package.json", "package-lock.json"]) await cp(name, join(project, name));
  const installed = join(directory, "project");
  await cp(project, installed, { recursive: true });
  const options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--cache", join(inputs, "npm-cache")];
  await run("npm", ["ci", ...options], { cwd: installed, signal });
  await run("npm", ["pack", "--silent", "npm@10.9.4", "--pack-destination", directory], { cwd: directory, signal });
  await mkdir(join(inputs, "npm"));
  await run("tar", ["-xzf", join(directory, "npm-10.9.4.tgz"), "-C", join(inputs, "npm"), "--strip-components=1"], {
    signal,
  });
  await cp(process.execPath, join(inputs, "node"), { dereference: true });
  const git = (...args: string[]): Promise<unknown> =>
    run("git", ["-c", "user.name=bench", "-c", "user.email=bench@example.com", ...args], {
      cwd: installed,
      signal,
      maxBuffer: 1 << 26,
    });
  await git("init", "--quiet");
  await git("add", "--force", ".");
  await git("commit", "--quiet", "--message", "All packages");
  await git("clone", "--quiet", "--bare", ".", join(inputs, "repository.git"));
  await run("chown", ["-R", "0:0", inputs], { signal });
}
