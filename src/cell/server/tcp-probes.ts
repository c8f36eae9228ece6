import type { ServerResponse } from "node:http";
import { parseTcpProbePath, type TcpProbe } from "../../api/cell/tcp-probe.ts";
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

interface Dial {
  /** Resolves with why the port does not accept connections, or undefined. */
  problem: Promise<string | undefined>;
  /** How many callers wait for it. */
  callers: number;
  abandon: () => void;
}

/**
 * Answers the `tcpSocket` probes of the kubelet by connecting to the port inside the sandbox. Strangers can call it too, so
 * callers share one connection for each port, and it is closed as soon as the last one of them leaves.
 *
 * While a sandbox is captured, its programs stand still: the last result counts until the capture has ended.
 */
export class TcpProbes {
  readonly #options: TcpProbesOptions;
  readonly #dials = new Map<number, Dial>();
  readonly #accepting = new Set<number>();

  constructor(options: TcpProbesOptions) {
    this.#options = options;
  }

  /** Returns the probe that a request asks for. Undefined: it is another request. */
  requested(path: string): TcpProbe | undefined {
    const probe = parseTcpProbePath(path);
    return probe !== undefined && this.#options.ports.includes(probe.port) ? probe : undefined;
  }

  /** Responds with 200 if the port accepts connections, otherwise with 503 and the reason. */
  async answer(probe: TcpProbe, response: ServerResponse): Promise<void> {
    const left = new AbortController();
    response.once("close", () => {
      left.abort();
    });
    const problem = await this.#problemOf(probe, left.signal);
    if (response.destroyed) return;
    const text = problem ?? `port ${probe.port} accepts connections`;
    response.writeHead(problem === undefined ? 200 : 503, { "content-type": "text/plain" }).end(`${text}\n`);
  }

  async #problemOf(probe: TcpProbe, signal: AbortSignal): Promise<string | undefined> {
    const early = this.#unjudged(probe);
    if (early !== undefined) return early.problem;
    const problem = await this.#dial(probe.port, signal);
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

  async #dial(port: number, signal: AbortSignal): Promise<string | undefined> {
    const dial = this.#dials.get(port) ?? this.#open(port);
    dial.callers += 1;
    const leave = (): void => {
      dial.callers -= 1;
      if (dial.callers === 0) dial.abandon();
    };
    signal.addEventListener("abort", leave, { once: true });
    const problem = await dial.problem;
    signal.removeEventListener("abort", leave);
    return problem;
  }

  #open(port: number): Dial {
    const abandoned = new AbortController();
    const abandon = (): void => {
      abandoned.abort();
      if (this.#dials.get(port) === dial) this.#dials.delete(port);
    };
    const removeListener = this.#options.cell.onChange((state) => {
      if (!canProbe(state)) abandon();
    });
    const problem = this.#connect(port, abandoned.signal).finally(() => {
      removeListener();
      if (this.#dials.get(port) === dial) this.#dials.delete(port);
    });
    const dial: Dial = { problem, callers: 0, abandon };
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
      // A caller that left, or a capture, says nothing about the program.
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
