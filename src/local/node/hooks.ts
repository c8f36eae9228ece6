import * as z from "zod";
import { commandInSandbox } from "../../api/pod/cell-container.ts";
import type { Handler } from "../../api/schema/pod-template.ts";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { execInContainer } from "./exec-in-container.ts";
import { attemptProbe, ProbeSpec, type ProbeTarget } from "./probe-attempt.ts";

export interface HooksOptions {
  target: ProbeTarget;
  onChange: () => void;
  /** Called when the postStart hook has failed: the container must end. */
  onFatal: (message: string) => void;
}

/** The lifecycle hooks of one container. */
export class Hooks {
  readonly #options: HooksOptions;
  readonly #stopped = new AbortController();
  #isStarting = false;

  constructor(options: HooksOptions) {
    this.#options = options;
  }

  get isStarting(): boolean {
    return this.#isStarting;
  }

  get hasPreStop(): boolean {
    return this.#options.target.container.lifecycle?.preStop !== undefined;
  }

  /** Runs the postStart hook. It has no time limit, as with a kubelet, but ends with its container. */
  start(): void {
    const { target, onChange, onFatal } = this.#options;
    const { postStart } = target.container.lifecycle ?? {};
    if (postStart === undefined) return;
    this.#isStarting = true;
    const { signal } = this.#stopped;
    void runHook(postStart, target, { timeoutMilliseconds: noLimit, signal, atStart: true }).then((problem) => {
      this.#isStarting = false;
      if (signal.aborted) return;
      if (problem === undefined) onChange();
      else onFatal(`the postStart hook of container ${target.container.name} failed: ${problem}`);
    });
  }

  /** Runs the preStop hook. A hook that fails or takes too long does not keep the container from ending. */
  async preStop(timeoutMilliseconds: number): Promise<void> {
    const { target } = this.#options;
    const { preStop } = target.container.lifecycle ?? {};
    const { signal } = this.#stopped;
    if (preStop !== undefined) await runHook(preStop, target, { timeoutMilliseconds, signal, atStart: false });
  }

  stop(): void {
    this.#stopped.abort();
  }
}

/** The longest delay of a timer: 24 days. */
const noLimit = 2 ** 31 - 10_000;

interface HookOptions {
  timeoutMilliseconds: number;
  signal: AbortSignal;
  /** Whether it runs when the container starts: its command waits for the container. */
  atStart: boolean;
}

const Sleep = z.looseObject({ seconds: z.number() });

/** Runs a lifecycle hook as a kubelet does. Resolves with the problem, or undefined. */
async function runHook(
  handler: Handler,
  target: ProbeTarget,
  { timeoutMilliseconds, signal, atStart }: HookOptions,
): Promise<string | undefined> {
  const { cellDirectory, clock } = target;
  try {
    if (handler.exec !== undefined) {
      const { command } = commandInSandbox(handler.exec.command ?? []);
      const request = { cellDirectory, command, timeoutMilliseconds, signal, clock, waits: atStart };
      const { exitCode, output } = await execInContainer(request);
      return exitCode === 0 ? undefined : `exit code ${exitCode}${output === "" ? "" : `: ${output.slice(0, 256)}`}`;
    }
    if (handler["sleep"] !== undefined) {
      await delay(clock, Math.min(Sleep.parse(handler["sleep"]).seconds * 1000, timeoutMilliseconds), signal);
      return undefined;
    }
    const problem = await attemptProbe(ProbeSpec.parse(handler), target, signal);
    // A kubelet accepts every status.
    return problem?.startsWith("HTTP status") === true ? undefined : problem;
  } catch (error) {
    return RametError.from(error).message;
  }
}

/** The field of a hook that the local node does not support. `why` continues "the local node". */
export function unsupportedHook(handler: Handler): { field: string; why: string } | undefined {
  if (handler.tcpSocket !== undefined)
    return { field: "tcpSocket", why: "runs exec, httpGet and sleep as hooks, as a kubelet does" };
  if (handler.httpGet?.["host"] !== undefined)
    return { field: "httpGet.host", why: "sends hooks only to the Pod's address: remove host" };
  return undefined;
}
