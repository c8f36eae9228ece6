// `npm run dev`: a local cluster that restarts its controller and gateway when a file below src/ changes.
import { globSync, watch } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { context } from "esbuild";

import { delay, systemClock as clock } from "../src/base/clock.ts";
import { RametError } from "../src/base/errors.ts";
import { clusterDirectory, dataDirectory } from "../src/local/cluster-directory.ts";
import { readSetting } from "../src/local/cluster-setting.ts";
import { isSupervised, readStatus } from "../src/local/cluster-status.ts";
import { stopCluster } from "../src/local/down.ts";
import { sendPartLog } from "../src/local/log-files.ts";
import { prepareCluster } from "../src/local/prepare-cluster.ts";
import { signalProcess } from "../src/base/process-identity.ts";
import { startCluster } from "../src/local/up.ts";

const help = `npm run dev -- [options]

Starts a local cluster, and restarts its controller and gateway when a file below src/ changes. Ctrl-C stops it.

  --name <name>   the cluster's name (default dev)

Example: npm run dev -- --name feature`;

const { name } = parseOptions();
const root = dirname(dirname(fileURLToPath(import.meta.url)));
// Apart from dist/, which tests rebuild. Below the package, where the programs find its dependencies.
const output = join(root, "node_modules/.cache/ramet-dev");
const program = [process.execPath, join(output, "ramet.js")];
const cell = [process.execPath, join(output, "cell.js")];
const directory = clusterDirectory(name, process.env);
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => stop.abort());
const { signal } = stop;
/** @type {string | undefined} The file that changed last since the build started. */
let changed;
/** @type {(value?: unknown) => void} */
let wake = () => undefined;
const watched = new Set();

const bundler = await context({
  absWorkingDir: root,
  entryPoints: [
    { in: "src/cli/main.ts", out: "ramet" },
    { in: "src/cell/main.ts", out: "cell" },
  ],
  outdir: output,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22.19",
  packages: "external",
  sourcemap: true,
  splitting: true,
  logLevel: "warning",
});

try {
  await run();
} catch (error) {
  if (!signal.aborted) {
    console.error(RametError.from(error).describe());
    process.exitCode = 1;
  }
} finally {
  await bundler.dispose();
}

async function run() {
  watchSources();
  if (!(await build())) throw new RametError("InvalidArgument", "Building src/ failed: no cluster was started");
  const data = dataDirectory(process.env);
  const prepared = await prepareCluster({ name, dataDirectory: data, clock, signal, progress: console.error });
  await rejectOtherProgram();
  try {
    const setting = { ...prepared, program, cell };
    const { already } = await startCluster({ directory, setting, clock, signal, progress: console.error });
    if (already) await restart();
    console.error(`The cluster ${name} is up. Use it with:`);
    console.log(`export KUBECONFIG=${directory.kubeconfig}`);
    console.error("A change below src/ restarts the controller and the gateway. Ctrl-C stops the cluster.");
    console.error("The controller's log follows.");
    const log = sendPartLog(directory, process.stdout, { part: "controller", follow: true, signal });
    await Promise.all([log, restartOnChange()]);
  } finally {
    console.error(`Stopping the cluster ${name}`);
    await stopCluster({ directory, clock, signal: new AbortController().signal, purge: false });
  }
}

/** Ends the process after `--help` and after a wrong option. */
function parseOptions() {
  try {
    const { values } = parseArgs({
      options: { name: { type: "string", default: "dev" }, help: { type: "boolean", short: "h" } },
    });
    if (!values.help) return values;
    console.log(help);
    process.exit(0);
  } catch (error) {
    console.error(`${error.message}\n\n${help}`);
    process.exit(2);
  }
}

/** A cluster that `ramet local up` started runs another build: a restart would not load this one. */
async function rejectOtherProgram() {
  const status = readStatus(directory.status);
  if (!isSupervised(status)) return;
  const { program: running } = await readSetting(directory.setting);
  if (running[1] === program[1]) return;
  throw new RametError("Conflict", `Starting the cluster ${name} failed: it runs ${running.join(" ")}`, {
    hint: `Choose another name with --name, or run: ramet local down --name ${name}`,
  });
}

/** Returns whether it succeeded; esbuild prints the errors. */
function build() {
  return bundler.rebuild().then(
    () => true,
    () => false,
  );
}

async function restartOnChange() {
  for await (const path of changes()) {
    const started = clock.monotonicMilliseconds();
    const seconds = () => ((clock.monotonicMilliseconds() - started) / 1000).toFixed(1);
    if (!(await build())) {
      console.error(`${path} changed: the build failed, and the previous build keeps running`);
      continue;
    }
    console.error(`${path} changed: built after ${seconds()} s`);
    if (await restart()) console.error(`controller and gateway are running, after ${seconds()} s`);
  }
}

/** Yields one path per burst of changes, until Ctrl-C. */
async function* changes() {
  signal.addEventListener("abort", () => wake(), { once: true });
  while (!signal.aborted) {
    if (changed === undefined) await new Promise((resolve) => (wake = resolve));
    // An editor writes a file in several steps, and git writes many files.
    await delay(clock, 50);
    const path = changed;
    changed = undefined;
    watchSources();
    if (path !== undefined && !signal.aborted) yield path;
  }
}

/** Watches each directory below src/: Node's recursive watch loses a file that an editor or git has replaced. */
function watchSources() {
  for (const path of globSync("src/**/", { cwd: root })) {
    if (watched.has(path)) continue;
    watched.add(path);
    watch(join(root, path), { signal }, (_, file) => {
      if (file === null || !file.endsWith(".ts") || file.endsWith(".test.ts")) return;
      changed = join(path, file);
      wake();
    }).on("error", () => watched.delete(path));
  }
}

/** Restarts the controller and the gateway, unless another change follows. Returns whether both run; if not, prints the reason. */
async function restart() {
  const before = restartedParts();
  const status = readStatus(directory.status);
  if (status === undefined) return false;
  signalProcess(status.supervisor, "SIGUSR2");
  while (!signal.aborted && changed === undefined) {
    const now = restartedParts();
    if (now.every(({ state, process }, at) => state === "running" && process?.pid !== before[at].process?.pid))
      return true;
    const failed = now.find(({ restarts }, at) => restarts > before[at].restarts + 1);
    if (failed !== undefined) {
      console.error(`${failed.name} did not start, and is restarted: ${failed.message}`);
      return false;
    }
    await delay(clock, 25, signal).catch(() => undefined);
  }
  return false;
}

function restartedParts() {
  const { parts } = readStatus(directory.status) ?? { parts: [] };
  return parts
    .filter((part) => part.name === "controller" || part.name === "gateway")
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}
