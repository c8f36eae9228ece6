import type { CellState } from "../../api/cell/cell-api.ts";
import type { Container } from "../../api/schema/pod-template.ts";
import type { Clock } from "../../base/clock.ts";
import { type ProbeAttempt, knock as knockForReal, ProbeSpec, type ProbeTarget } from "./probe-attempt.ts";
import { asksTheCell } from "./unsupported.ts";

/** What a Pod's probes say by now. */
export interface ProbeVerdict {
  /** Whether the startup probe has succeeded; true where there is none. */
  started: boolean;
  ready: boolean;
  /** Why it is not ready. */
  message?: string;
}

export interface PodProbesOptions {
  target: ProbeTarget;
  clock: Clock;
  /** Called when the verdict has changed. */
  onChange: () => void;
  /** Called once when the startup or the liveness probe has failed for good: the Pod is to end. */
  onFatal: (message: string, graceSeconds: number | undefined) => void;
  knock?: ProbeAttempt;
  /** What was last told of the Pod, where it ran before the node did. */
  before?: { started?: boolean | undefined; ready?: boolean | undefined } | undefined;
}

type Kind = "startup" | "readiness" | "liveness";

/**
 * The probes of one Pod with a kubelet's meaning: the startup probe first and alone, then readiness and liveness, each after
 * its `initialDelaySeconds` and every `periodSeconds`. Time begins when the sandbox first runs. While it is paused, is being
 * checkpointed or gives up, nobody knocks and nothing counts.
 */
export class PodProbes {
  readonly #options: PodProbesOptions;
  readonly #specs: ReadonlyMap<Kind, ProbeSpec>;
  readonly #stops: (() => void)[] = [];
  #since: number | undefined;
  #knockable = false;
  #started: boolean;
  #ready: boolean;
  #problem: string | undefined;

  constructor(options: PodProbesOptions) {
    this.#options = options;
    this.#specs = probesOf(options.target.container);
    this.#started = !this.#specs.has("startup") || options.before?.started === true;
    this.#ready = !this.#specs.has("readiness") || options.before?.ready === true;
  }

  get verdict(): ProbeVerdict {
    const ready = this.#started && this.#ready;
    const waitsFor = this.#started ? "readiness" : "startup";
    const message = this.#problem ?? `the ${waitsFor} probe has not succeeded yet`;
    return { started: this.#started, ready, ...(!ready && { message }) };
  }

  /** To be told the cell's state whenever it changes; the first time that the sandbox runs, the probes begin. */
  follow({ phase, ready, checkpointing }: CellState): void {
    this.#knockable = phase === "running" && ready && checkpointing === undefined;
    if (!this.#knockable || this.#since !== undefined) return;
    this.#since = this.#options.clock.monotonicMilliseconds();
    if (this.#started) this.#beginOthers();
    else this.#begin("startup");
  }

  stop(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }

  #beginOthers(): void {
    this.#begin("readiness");
    this.#begin("liveness");
  }

  #begin(kind: Kind): void {
    const spec = this.#specs.get(kind);
    if (spec === undefined) return;
    const { clock, target, knock = knockForReal } = this.#options;
    const elapsed = clock.monotonicMilliseconds() - (this.#since ?? 0);
    const stop = repeat({
      clock,
      spec,
      firstMilliseconds: Math.max(0, spec.initialDelaySeconds * 1000 - elapsed),
      knock: async (signal) => (this.#knockable ? { problem: await knock(spec, target, signal) } : undefined),
      // What was asked before a pause and answered after it says nothing.
      counts: () => this.#knockable,
      settle: (problem) => this.#settle(kind, spec, problem),
    });
    this.#stops.push(stop);
  }

  /** Answers whether the probe is to go on. */
  #settle(kind: Kind, spec: ProbeSpec, problem: string | undefined): boolean {
    const message = problem === undefined ? undefined : `the ${kind} probe failed: ${problem}`;
    if (message !== undefined && kind !== "readiness") {
      this.stop();
      this.#options.onFatal(`${message} (${spec.failureThreshold} times)`, spec.terminationGracePeriodSeconds);
      return false;
    }
    if (kind === "startup") {
      this.#started = true;
      this.#beginOthers();
    } else if (kind === "readiness") {
      if (this.#ready === (message === undefined) && this.#problem === message) return true;
      this.#ready = message === undefined;
      this.#problem = message;
    } else return true;
    this.#options.onChange();
    return kind !== "startup";
  }
}

/** The container's probes, but for the one by which the cell itself is asked. */
function probesOf({ startupProbe, readinessProbe, livenessProbe }: Container): ReadonlyMap<Kind, ProbeSpec> {
  const found = new Map<Kind, ProbeSpec>();
  if (startupProbe !== undefined) found.set("startup", ProbeSpec.parse(startupProbe));
  if (readinessProbe !== undefined && !asksTheCell(readinessProbe))
    found.set("readiness", ProbeSpec.parse(readinessProbe));
  if (livenessProbe !== undefined) found.set("liveness", ProbeSpec.parse(livenessProbe));
  return found;
}

interface RepeatOptions {
  clock: Clock;
  spec: ProbeSpec;
  firstMilliseconds: number;
  /** Nothing: this time it does not count. */
  knock: (signal: AbortSignal) => Promise<{ problem: string | undefined } | undefined>;
  counts: () => boolean;
  /** Told each time that a threshold is reached or passed; answers whether to go on. */
  settle: (problem: string | undefined) => boolean;
}

function repeat({ clock, spec, firstMilliseconds, knock, counts, settle }: RepeatOptions): () => void {
  const stopped = new AbortController();
  let successes = 0;
  let failures = 0;
  let cancel = clock.schedule(firstMilliseconds, () => void turn());
  const turn = async (): Promise<void> => {
    const begun = clock.monotonicMilliseconds();
    const late = new AbortController();
    const cancelLate = clock.schedule(spec.timeoutSeconds * 1000, () => {
      late.abort();
    });
    const result = await knock(AbortSignal.any([stopped.signal, late.signal]));
    cancelLate();
    if (stopped.signal.aborted) return;
    if (result !== undefined && counts()) {
      successes = result.problem === undefined ? successes + 1 : 0;
      failures = result.problem === undefined ? 0 : failures + 1;
      const isSettled = successes >= spec.successThreshold || failures >= spec.failureThreshold;
      if (isSettled && !settle(result.problem)) return;
    }
    const elapsed = clock.monotonicMilliseconds() - begun;
    cancel = clock.schedule(Math.max(0, spec.periodSeconds * 1000 - elapsed), () => void turn());
  };
  return () => {
    stopped.abort();
    cancel();
  };
}
