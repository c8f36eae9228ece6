import * as z from "zod";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient, StartProcess } from "../../../cell/client/guest-client.ts";
import { outputOpen as whyOpen } from "../../../cell/client/guest-wire.ts";
import { causeOfLoss } from "../../../operations/cause-of-loss.ts";
import { needs } from "../../keys/needs.ts";
import { SandboxName, type ToolParts, addTool, runningSandbox } from "./tool.ts";

const mostSeconds = 600;
/** The limit of stdout, and that of stderr. */
const outputBytes = 64 * 1024;

/** Runs commands. */
export function commandTool(parts: ToolParts): void {
  addTool(parts, {
    name: "run_command",
    description:
      "Run a shell command in a sandbox and return its output and exit code. A paused sandbox is resumed. For a program that keeps running, end the command with `&` and redirect its output to a file.",
    input: {
      sandbox: SandboxName,
      command: z.string().min(1).max(100_000).describe("The command, for sh -c"),
      cwd: z.string().max(4096).optional().describe("The working directory"),
      environment: z.record(z.string().max(200), z.string().max(32_768)).optional().describe("Environment variables"),
      user: z.string().max(64).optional().describe("The user of the sandbox's image who runs it"),
      timeout_seconds: z.number().min(1).max(mostSeconds).default(50).describe("The command is killed after this time"),
    },
    hints: { readOnlyHint: false, destructiveHint: true, openWorldHint: true },
    needs: needs.enter,
    call: async ({ sandbox: text, command, cwd, environment = {}, user, timeout_seconds }, signal) => {
      const sandbox = await runningSandbox(parts, text, signal);
      const open = (until: AbortSignal) => parts.actor.guest(sandbox, { user, signal: until });
      const start: StartProcess = {
        command: "sh",
        args: ["-c", command],
        environment,
        ...defined({ workingDirectory: cwd }),
        timeoutMilliseconds: timeout_seconds * 1000,
      };
      const ran = await run(open, start, signal).catch(async (error: unknown) => {
        throw await causeOfLoss(parts.service.objects, sandbox, error, signal);
      });
      return { json: ran, text: textOf(ran) };
    },
  });
}

interface Ran extends Record<string, unknown> {
  exitCode: number;
  stdout: string;
  stderr: string;
  outputOpen?: true;
}

/** @throws RametError `Timeout` with the output until then */
async function run(
  open: (signal: AbortSignal) => Promise<GuestClient>,
  start: StartProcess,
  signal: AbortSignal,
): Promise<Ran> {
  const outputs = { stdout: new LimitedOutput(outputBytes), stderr: new LimitedOutput(outputBytes) };
  let pid: number | undefined;
  const guest = await open(signal);
  try {
    for await (const event of guest.startProcess(start, signal)) {
      if (event.type === "start") pid = event.pid;
      else if (event.type === "data") outputs[event.stream === "stderr" ? "stderr" : "stdout"].add(event.data);
      else {
        const { exitCode, outputOpen } = event;
        const ran = { exitCode, stdout: String(outputs.stdout), stderr: String(outputs.stderr) };
        return outputOpen ? { ...ran, outputOpen } : ran;
      }
    }
  } catch (error) {
    const known = RametError.from(error);
    if (signal.aborted && pid !== undefined) await kill(open, pid).catch(() => undefined);
    if (known.code !== "Timeout") throw known;
    const seconds = (start.timeoutMilliseconds ?? 0) / 1000;
    const seen = `stdout:\n${String(outputs.stdout)}\nstderr:\n${String(outputs.stderr)}`;
    throw new RametError("Timeout", `The command was killed after ${seconds} s. Its output until then: ${seen}`, {
      hint: "Raise timeout_seconds, or run it in the background",
      cause: error,
    });
  }
  throw new RametError("GuestUnreachable", "The connection ended before the command", { retryable: true });
}

/** Nobody would see the output of the command any more. The signal of the call has ended its own connections. */
async function kill(open: (signal: AbortSignal) => Promise<GuestClient>, pid: number): Promise<void> {
  const guest = await open(new AbortController().signal);
  await guest.signal({ pid }, "SIGKILL");
}

function textOf({ exitCode, stdout, stderr, outputOpen }: Ran): string {
  const parts = [stdout, ...(stderr === "" ? [] : [`stderr:\n${stderr}`])];
  if (exitCode !== 0) parts.push(`exit code ${exitCode}`);
  if (outputOpen) parts.push(`[output is incomplete: ${whyOpen}]`);
  return parts.filter((part) => part !== "").join("\n") || "exit code 0, without output";
}

/**
 * Keeps the start and the end of an output, whose middle is left out when it is too long: a program that never stops writing must
 * not fill the memory of the server, nor the context of an agent.
 */
export class LimitedOutput {
  readonly #half: number;
  readonly #start: Buffer[] = [];
  #startBytes = 0;
  #end = Buffer.alloc(0);
  #allBytes = 0;

  constructor(limitBytes: number) {
    this.#half = Math.floor(limitBytes / 2);
  }

  add(data: Buffer): void {
    this.#allBytes += data.length;
    const first = data.subarray(0, this.#half - this.#startBytes);
    if (first.length > 0) this.#start.push(first);
    this.#startBytes += first.length;
    const others = data.subarray(first.length);
    if (others.length > 0) this.#end = Buffer.concat([this.#end, others]).subarray(-this.#half);
  }

  get leftOutBytes(): number {
    return this.#allBytes - this.#startBytes - this.#end.length;
  }

  toString(): string {
    const start = Buffer.concat(this.#start);
    if (this.leftOutBytes === 0) return Buffer.concat([start, this.#end]).toString();
    return `${start.toString()}\n[${this.leftOutBytes} bytes are left out]\n${this.#end.toString()}`;
  }
}
