import { once } from "node:events";
import { rm } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import { cellAmong } from "./pod-family.ts";
import { descendants } from "../faults/processes.ts";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells } from "../setup/cells.ts";
import { cpuSecondsOf } from "./cpu-of-processes.ts";
import { summary } from "./samples.ts";
import { firstAnswer, workloadPort } from "./workload.ts";

/** The share that a sandbox gets while a bomb runs in another one, compared with the time just before and after it. */
export interface NeighbourFigure {
  bomb: BombName;
  /** Medians of the windows: requests that the neighbour answers, each with some work. */
  normalPerSecond: number;
  besidePerSecond: number;
  /** The median ratio of a window beside the bomb to the mean of the windows around it. */
  ratio: number;
  /** The same for the requests per second of the neighbour's CPU time. */
  cpuRatio: number;
  /** The 95th percentile of a request in milliseconds: the median over the windows. */
  normalP95: number;
  besideP95: number;
  failed: number;
  /** Windows at whose end the bomb's sandbox still ran. */
  survived: number;
  windows: number;
}

const mebibyte = 1024 ** 2;

/** Python programs without an end. Each is bounded so that it cannot fill this machine's disk. */
const bombs = {
  "nothing (control)": "time.sleep(1000)",
  CPU: "while True: pass",
  fork: `
while True:
    try: os.fork()
    except OSError: pass`,
  memory: `
held = []
while True: held.append(os.urandom(1 << 20)); time.sleep(0.005)`,
  disk: `
while True:
    with open("/root/big", "wb") as f:
        for _ in range(1024): f.write(b"x" * (1 << 20))
        os.fsync(f.fileno())`,
  inode: `
n = 0
while True:
    open(f"/root/{n % 200000}", "w").close(); n += 1`,
  socket: `
held = []
while True:
    try: held.append(socket.socket())
    except OSError: held.clear()
    try: held[-1].connect(("169.254.17.1", 53))
    except OSError: pass`,
  output: `
line = "x" * 4095
while True: print(line)`,
} as const;
export type BombName = keyof typeof bombs;
export const bombNames = Object.keys(bombs) as BombName[];

/** Half of what the neighbour has, so that both fit on a machine of two cores. */
const bombLimits = { cpuMillis: 500, memoryBytes: 256 * mebibyte };
const neighbourLimits = { cpuMillis: 1000, memoryBytes: 512 * mebibyte };
const windowMilliseconds = 2_000;
const settleMilliseconds = 500;

/** Windows with a bomb alternate with windows without one, so that other load on the machine affects both. */
export async function measureNeighbours(rootPath: string, { quick }: { quick: boolean }, signal: AbortSignal) {
  const cells = await Cells.open(rootPath);
  const dispatcher = new Agent({ connections: 1 });
  try {
    const neighbour = await Neighbour.boot(cells, dispatcher);
    const figures: NeighbourFigure[] = [];
    await neighbour.window();
    for (const bomb of bombNames) {
      figures.push(await measureBomb({ bomb, cells, neighbour, pairs: quick ? 1 : 8, signal }));
    }
    process.stderr.write("\r\x1b[K");
    return figures;
  } finally {
    await dispatcher.close();
    await cells.close();
  }
}

interface Bombing {
  bomb: BombName;
  cells: Cells;
  neighbour: Neighbour;
  pairs: number;
  signal: AbortSignal;
}

async function measureBomb({ bomb, cells, neighbour, pairs, signal }: Bombing): Promise<NeighbourFigure> {
  neighbour.failed = 0;
  const normal = [await neighbour.window()];
  const beside: Window[] = [];
  let survived = 0;
  for (let pair = 1; pair <= pairs; pair++) {
    signal.throwIfAborted();
    process.stderr.write(`\r${bomb}: ${pair}/${pairs} \x1b[K`);
    const cell = await startBomb(cells, bomb);
    await delay(settleMilliseconds);
    beside.push(await neighbour.window());
    if (await stillRuns(cells, cell)) survived++;
    await removeCell(cells, cell);
    await delay(settleMilliseconds);
    normal.push(await neighbour.window());
  }
  const of = (windows: readonly Window[], field: keyof Window) => median(windows.map((window) => window[field]));
  const ratioOf = (field: keyof Window) =>
    median(beside.map((window, at) => (2 * window[field]) / (normal[at]![field] + normal[at + 1]![field])));
  return {
    bomb,
    normalPerSecond: of(normal, "perSecond"),
    besidePerSecond: of(beside, "perSecond"),
    ratio: ratioOf("perSecond"),
    cpuRatio: ratioOf("perCpuSecond"),
    normalP95: of(normal, "p95"),
    besideP95: of(beside, "p95"),
    failed: neighbour.failed,
    survived,
    windows: pairs,
  };
}

async function startBomb(cells: Cells, bomb: BombName): Promise<RunningCell> {
  const program = `import os, socket, time\n${bombs[bomb]}`;
  return cells.boot({ name: "bomb", container: { command: ["python3", "-u", "-c", program], resources: bombLimits } });
}

async function stillRuns(cells: Cells, { address }: RunningCell): Promise<boolean> {
  return cells.client.state(address).then(
    ({ phase }) => phase === "running",
    () => false,
  );
}

async function removeCell(cells: Cells, cell: RunningCell): Promise<void> {
  const exited = cell.process.exitCode === null ? once(cell.process, "exit") : undefined;
  await cells.client.stop(cell.address, "measured").catch(() => undefined);
  await Promise.race([exited, delay(10_000)]);
  if (cell.process.exitCode === null) cell.process.kill("SIGKILL");
  await rm(cell.directory, { recursive: true, force: true });
}

interface Window {
  perSecond: number;
  perCpuSecond: number;
  p95: number;
}

/** One client of a sandbox that computes something for each request and writes a small file. */
class Neighbour {
  readonly #cell: RunningCell;
  readonly #dispatcher: Agent;
  failed = 0;

  private constructor(cell: RunningCell, dispatcher: Agent) {
    this.#cell = cell;
    this.#dispatcher = dispatcher;
  }

  static async boot(cells: Cells, dispatcher: Agent): Promise<Neighbour> {
    const container = { command: ["python3", "-c", worker], ports: [workloadPort], resources: neighbourLimits };
    const cell = await cells.boot({ name: "neighbour", container });
    await firstAnswer(cell.address.ip);
    return new Neighbour(cell, dispatcher);
  }

  async window(): Promise<Window> {
    const { pid = 0 } = this.#cell.process;
    const family = (await descendants(pid)).map((found) => found.pid);
    if (cellAmong(await descendants(pid)) === undefined) throw new Error("the neighbour has ended");
    const [since, cpuSince] = [performance.now(), await cpuSecondsOf(family)];
    const milliseconds: number[] = [];
    while (performance.now() - since < windowMilliseconds) {
      const start = performance.now();
      if (await this.#request()) milliseconds.push(performance.now() - start);
      else this.failed++;
    }
    const seconds = (performance.now() - since) / 1000;
    const cpuSeconds = (await cpuSecondsOf(family)) - cpuSince;
    return {
      perSecond: milliseconds.length / seconds,
      perCpuSecond: milliseconds.length / Math.max(cpuSeconds, 0.01),
      p95: summary(milliseconds)?.p95 ?? Infinity,
    };
  }

  async #request(): Promise<boolean> {
    try {
      const { dispatcher } = { dispatcher: this.#dispatcher };
      const answer = await request(`http://${this.#cell.address.ip}:${workloadPort}/`, {
        dispatcher,
        bodyTimeout: 30_000,
      });
      return (await answer.body.text()) === "done" && answer.statusCode === 200;
    } catch {
      return false;
    }
  }
}

const worker = `
import http.server, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        sum(range(50000))
        with open("/tmp/note", "w") as f: f.write("x" * 4096)
        self.send_response(200); self.send_header("content-length", "4"); self.end_headers()
        self.wfile.write(b"done")
    def log_message(self, *_): pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("0.0.0.0", ${workloadPort}), Handler).serve_forever()
`;

function median(values: readonly number[]): number {
  return summary(values)?.p50 ?? 0;
}
