import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { SourceMap, type SourceMapPayload } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { Sandbox } from "e2b";
import { sandboxSetKind } from "../../src/api/kinds/sandbox-set.ts";
import { waitUntil } from "../../src/kube/wait-until.ts";
import { LocalCluster, namespace } from "./local-cluster.ts";

/**
 * Prints the source files whose functions run during one `ramet checkpoint create`, in the command, in the controllers and in the
 * cell, and during one `Sandbox.create` of E2B's SDK from a stocked set, in the client API and in the controllers. V8's precise coverage finds the functions, and source maps find their files. The command's start-up is not counted:
 * its functions also run for `--help`. Other work of the controllers during that time is counted too.
 */
async function main(): Promise<void> {
  const interrupted = new AbortController();
  process.once("SIGINT", () => {
    interrupted.abort();
  });
  const cluster = await LocalCluster.up("entered", interrupted.signal);
  try {
    const sandbox = await cluster.createSandbox({ name: "source" });
    await cluster.createCheckpoint("first", "source");
    const startUp = await coveredByCommand(cluster, ["checkpoint", "create", "--help"]);
    const command = await coveredByCommand(cluster, ["checkpoint", "create", "source", "--name", "second"]);
    const controller = await coveredDuring(cluster.part("controller"), () =>
      cluster.createCheckpoint("third", "source"),
    );
    const cell = await coveredDuring(await cellOf(sandbox.metadata.uid), () =>
      cluster.createCheckpoint("fourth", "source"),
    );
    print("checkpoint", { command: without(command, startUp), controller, cell });
    print("Sandbox.create", await enteredByCreate(cluster, interrupted.signal));
  } finally {
    await cluster.down();
  }
}

/** Each create takes a ready sandbox of the set. The first one fills caches, and is not measured. */
async function enteredByCreate(cluster: LocalCluster, signal: AbortSignal): Promise<Record<string, Entered>> {
  const { client } = cluster.cluster;
  const sets = client.of(sandboxSetKind);
  const main = { name: "main", image: "python", command: ["sleep", "infinity"] };
  const from = await sets.create({
    apiVersion: sandboxSetKind.apiVersion,
    kind: "SandboxSet",
    metadata: { name: "stock", namespace },
    spec: { replicas: 3, template: { spec: { containers: [main] } } },
  });
  const options = await cluster.clientOptions();
  const create = async (): Promise<void> => {
    await Sandbox.create("stock", options);
  };
  const filled = async (): Promise<void> => {
    const until = (set?: typeof from): boolean => set?.status?.availableReplicas === 3;
    await waitUntil({
      resource: sets,
      from: await sets.get(from.metadata),
      until,
      timeoutMilliseconds: 120_000,
      signal,
    });
  };
  await filled();
  await create();
  await filled();
  const clientApi = await coveredDuring(cluster.part("client-api"), create);
  await filled();
  return { "client-api": clientApi, controller: await coveredDuring(cluster.part("controller"), create) };
}

/** Entered functions by source file: `line:column` of each. */
type Entered = Map<string, Set<string>>;

function print(what: string, processes: Record<string, Entered>): void {
  console.log(`${what}:`);
  const all = new Set<string>();
  for (const [name, entered] of Object.entries(processes)) {
    const files = [...entered.keys()].sort();
    for (const file of files) all.add(file);
    console.log(`${name}: ${files.length} files\n${files.map((file) => `  ${file}`).join("\n")}`);
  }
  console.log(`all: ${all.size} files`);
}

function without(entered: Entered, known: Entered): Entered {
  const rest: Entered = new Map();
  for (const [file, functions] of entered) {
    const others = [...functions].filter((at) => known.get(file)?.has(at) !== true);
    if (others.length > 0) rest.set(file, new Set(others));
  }
  return rest;
}

interface Script {
  url: string;
  functions: { ranges: { startOffset: number; count: number }[] }[];
}

const root = fileURLToPath(new URL("../..", import.meta.url));

async function coveredByCommand(cluster: LocalCluster, args: readonly string[]): Promise<Entered> {
  const directory = await mkdtemp(join(tmpdir(), "ramet-coverage-"));
  try {
    const child = spawn(process.execPath, [join(root, "bin/ramet.mjs"), ...args], {
      env: { ...process.env, KUBECONFIG: cluster.directory.kubeconfig, NODE_V8_COVERAGE: directory },
      stdio: ["ignore", "ignore", "inherit"],
    });
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new Error(`ramet ${args.join(" ")} ended with ${code}`);
    const reports = await Promise.all(
      (await readdir(directory)).map(
        async (name) => JSON.parse(await readFile(join(directory, name), "utf8")) as unknown,
      ),
    );
    return await enteredIn(reports.flatMap((report) => (report as { result: Script[] }).result));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The process of the sandbox's cell: an ancestor of gVisor's processes, whose arguments contain the sandbox's UID. */
async function cellOf(uid: string): Promise<number> {
  for (const name of (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry))) {
    if (!(await commandOf(Number(name))).includes(uid)) continue;
    for (let pid = Number(name); pid > 1; pid = await parentOf(pid)) {
      if ((await commandOf(pid)).includes("cell.cjs")) return pid;
    }
  }
  throw new Error(`no cell of the sandbox ${uid} runs`);
}

function commandOf(pid: number): Promise<string> {
  return readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
}

async function parentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return Number(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? 0);
}

/** Measures a running Node process. SIGUSR1 makes it accept a debugger on a loopback port. */
async function coveredDuring(pid: number | undefined, work: () => Promise<unknown>): Promise<Entered> {
  if (pid === undefined) throw new Error("the process does not run");
  process.kill(pid, "SIGUSR1");
  const debug = await Debugger.connect();
  try {
    await debug.call("Profiler.enable");
    await debug.call("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    await work();
    const { result } = (await debug.call("Profiler.takePreciseCoverage")) as { result: Script[] };
    return await enteredIn(result);
  } finally {
    await debug.close();
  }
}

/** Node's inspector, by its web socket. */
class Debugger {
  readonly #socket: WebSocket;
  #id = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  static async connect(): Promise<Debugger> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const [target] = (await (await fetch("http://127.0.0.1:9229/json")).json()) as {
          webSocketDebuggerUrl: string;
        }[];
        const socket = new WebSocket(target?.webSocketDebuggerUrl ?? "");
        await once(socket, "open");
        return new Debugger(socket);
      } catch (error) {
        if (attempt > 100) throw error;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }

  async call(method: string, params: object = {}): Promise<unknown> {
    this.#id += 1;
    const id = this.#id;
    const answered = new Promise<unknown>((resolve) => {
      const listen = (event: MessageEvent): void => {
        const answer = JSON.parse(String(event.data)) as { id?: number; result?: unknown };
        if (answer.id !== id) return;
        this.#socket.removeEventListener("message", listen);
        resolve(answer.result);
      };
      this.#socket.addEventListener("message", listen);
    });
    this.#socket.send(JSON.stringify({ id, method, params }));
    return answered;
  }

  /** Also frees the port for the next process. */
  async close(): Promise<void> {
    const closed = once(this.#socket, "close");
    await this.call("Runtime.evaluate", { expression: "setImmediate(() => process._debugEnd())" });
    this.#socket.close();
    await closed;
  }
}

async function enteredIn(scripts: readonly Script[]): Promise<Entered> {
  const entered: Entered = new Map();
  for (const { url, functions } of scripts) {
    const path = url.startsWith("file:") ? fileURLToPath(url) : url;
    if (!path.startsWith(join(root, "dist"))) continue;
    const positions = await sourcePositions(path);
    // The first function of a script is the script itself.
    for (const { ranges } of functions.slice(1)) {
      const [range] = ranges;
      if (range === undefined || range.count === 0) continue;
      const at = positions(range.startOffset);
      if (at === undefined) continue;
      entered.set(at.file, (entered.get(at.file) ?? new Set()).add(at.position));
    }
  }
  return entered;
}

type SourcePosition = { file: string; position: string } | undefined;

async function sourcePositions(path: string): Promise<(offset: number) => SourcePosition> {
  const text = await readFile(path, "utf8");
  const map = new SourceMap(JSON.parse(await readFile(`${path}.map`, "utf8")) as SourceMapPayload);
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return (offset) => {
    const line = starts.findLastIndex((start) => start <= offset);
    const entry = map.findEntry(line, offset - (starts[line] ?? 0));
    if (!("originalSource" in entry)) return undefined;
    const file = relative(root, join(dirname(path), entry.originalSource));
    return file.startsWith("src/") ? { file, position: `${entry.originalLine}:${entry.originalColumn}` } : undefined;
  };
}

await main();
