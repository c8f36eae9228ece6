import * as z from "zod";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { GuestClient } from "../../src/cell/client/guest-client.ts";
import { withCellGuest } from "../../src/cli/cluster/guest-access.ts";
import type { Cluster } from "../../src/cli/cluster/cluster.ts";

/** A code interpreter: runs each request and keeps the variables for later requests. */
const kernel = `
import contextlib, io, json, sys
names = {}
for line in sys.stdin:
    request, out, error = json.loads(line), io.StringIO(), None
    try:
        with contextlib.redirect_stdout(out): exec(request["code"], names)
    except Exception as problem: error = f"{type(problem).__name__}: {problem}"
    print(json.dumps({"id": request["id"], "out": out.getvalue().strip(), "error": error}), flush=True)
`;
const process = { tag: "interpreter" };
const Answer = z.object({ id: z.string(), out: z.string(), error: z.string().nullable() });

/** A long-running Python interpreter in a sandbox, and access to the sandbox's files. */
export class Interpreter {
  readonly #cluster: Cluster;
  readonly #sandbox: Sandbox;
  readonly #signal: AbortSignal;

  constructor(cluster: Cluster, sandbox: Sandbox, signal: AbortSignal) {
    this.#cluster = cluster;
    this.#sandbox = sandbox;
    this.#signal = signal;
  }

  async start(): Promise<void> {
    await this.#guest(async (guest) => {
      const command = { command: "python3", args: ["-u", "-c", kernel], stdin: true, ...process };
      for await (const event of guest.startProcess(command)) if (event.type === "start") return;
    });
  }

  /** Whether the interpreter runs. In a clone with memory it runs without being started. */
  async runs(): Promise<boolean> {
    const processes = await this.#guest((guest) => guest.listProcesses());
    return processes.some(({ tag }) => tag === process.tag);
  }

  /** Returns the output of the code, or its error. */
  async run(code: string): Promise<string> {
    const id = crypto.randomUUID();
    return this.#guest(async (guest) => {
      const output = guest.connect(process, this.#signal);
      await guest.sendInput(process, Buffer.from(`${JSON.stringify({ id, code })}\n`));
      let text = "";
      for await (const event of output) {
        if (event.type !== "data" || event.stream !== "stdout") continue;
        text += event.data.toString();
        for (const line of text.split("\n").slice(0, -1)) {
          const answer = Answer.parse(JSON.parse(line));
          if (answer.id === id) return answer.error ?? answer.out;
        }
      }
      throw new Error(`the interpreter in ${this.#sandbox.metadata.name} ended`);
    });
  }

  async writeFile(path: string, content: string): Promise<void> {
    await this.#guest((guest) => guest.writeFile(path, Buffer.from(content)));
  }

  async readFile(path: string): Promise<string> {
    return this.#guest(async (guest) => {
      const chunks: Buffer[] = [];
      for await (const chunk of (await guest.readFile(path)) as AsyncIterable<Buffer>) chunks.push(chunk);
      return Buffer.concat(chunks).toString();
    });
  }

  #guest<T>(use: (guest: GuestClient) => Promise<T>): Promise<T> {
    return withCellGuest(this.#cluster, this.#sandbox, { signal: this.#signal }, use);
  }
}
