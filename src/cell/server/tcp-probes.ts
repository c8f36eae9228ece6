import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { parseTcpProbePath, type TcpProbe } from "../../api/pod/tcp-probe.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import type { Cell } from "../lifecycle/cell.ts";

export interface TcpProbesOptions {
  cell: Pick<Cell, "state" | "dial" | "onChange">;
  /** The ports of the Pod's probes. The cell connects to no other one for callers without a token. */
  ports: readonly number[];
  clock: Clock;
}

/** Longer than a kubelet waits by default. */
const dialMilliseconds = 10_000;

/**
 * Answers the `tcpSocket` probes of the kubelet by connecting to the port inside the sandbox. Strangers can call it too, so all
 * callers share one connection for each port. It has a time limit, and outlasts callers that leave: otherwise, they could open many.
 *
 * While a sandbox is captured, its programs do not run: the last result counts until the capture has ended.
 */
export class TcpProbes {
  readonly #options: TcpProbesOptions;
  /** Each resolves with why the port does not accept connections, or undefined. */
  readonly #dials = new Map<number, Promise<string | undefined>>();
  readonly #accepting = new Set<number>();
  readonly #waiting = new WeakSet<Socket>();

  constructor(options: TcpProbesOptions) {
    this.#options = options;
  }

  /** Returns the probe that a request asks for. Undefined: it is another request. */
  requested(path: string): TcpProbe | undefined {
    const probe = parseTcpProbePath(path);
    return probe !== undefined && this.#options.ports.includes(probe.port) ? probe : undefined;
  }

  /** Responds with 200 if the port accepts connections, otherwise with 503 and the reason. */
  async answer(probe: TcpProbe, { socket }: IncomingMessage, response: ServerResponse): Promise<void> {
    // No kubelet sends a request before it has the previous answer.
    if (this.#waiting.has(socket)) return void socket.destroy();
    this.#waiting.add(socket);
    const problem = await this.#problemOf(probe);
    this.#waiting.delete(socket);
    if (response.destroyed) return;
    const text = problem ?? `port ${probe.port} accepts connections`;
    response.writeHead(problem === undefined ? 200 : 503, { "content-type": "text/plain" }).end(`${text}\n`);
  }

  async #problemOf(probe: TcpProbe): Promise<string | undefined> {
    const early = this.#unjudged(probe);
    if (early !== undefined) return early.problem;
    const problem = await (this.#dials.get(probe.port) ?? this.#dial(probe.port));
    // The sandbox may have been paused while the connection was opened.
    const late = problem === undefined ? undefined : this.#unjudged(probe);
    return late === undefined ? problem : late.problem;
  }

  /** The result if the program cannot be probed now. */
  #unjudged({ port, isLiveness }: TcpProbe): { problem: string | undefined } | undefined {
    const { state } = this.#options.cell;
    if (canProbe(state)) return undefined;
    const isKept = isLiveness || (state.ready && this.#accepting.has(port));
    return { problem: isKept ? undefined : `port ${port} cannot be probed: the sandbox is ${phaseOf(state)}` };
  }

  #dial(port: number): Promise<string | undefined> {
    const paused = new AbortController();
    const removeListener = this.#options.cell.onChange((state) => {
      if (!canProbe(state)) paused.abort();
    });
    const dial = this.#connect(port, paused.signal).finally(() => {
      removeListener();
      this.#dials.delete(port);
    });
    this.#dials.set(port, dial);
    return dial;
  }

  /** Connects as a client of the Pod's address would: without the guest's detour to loopback addresses. */
  async #connect(port: number, signal: AbortSignal): Promise<string | undefined> {
    const { cell, clock } = this.#options;
    const deadline = {
      clock,
      milliseconds: dialMilliseconds,
      what: `Connecting to port ${port} of the sandbox`,
      signal,
    };
    try {
      const stream = await within(deadline, (one) => cell.dial(port, { control: true, signal: one }));
      stream.on("error", () => undefined).destroy();
      this.#accepting.add(port);
      return undefined;
    } catch (error) {
      // A pause says nothing about the program.
      if (!signal.aborted) this.#accepting.delete(port);
      return RametError.from(error).message;
    }
  }
}

type State = TcpProbesOptions["cell"]["state"];

function canProbe({ ready, checkpointing }: State): boolean {
  return ready && checkpointing === undefined;
}

function phaseOf({ phase, checkpointing }: State): string {
  return checkpointing === undefined ? phase : "being captured";
}
