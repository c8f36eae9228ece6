import type { CellState } from "../../api/wire/cell-api.ts";
import type { Container } from "../../api/schema/pod-template.ts";
import type { Clock } from "../../base/clock.ts";
import { textOfError } from "../../base/errors.ts";
import { type ProbeAttempt, attemptProbe, ProbeSpec, type ProbeTarget } from "./probe-attempt.ts";
import { isCellProbe } from "./unsupported.ts";
import { within } from "../../base/within.ts";

/** The current result of a Pod's probes. */
export interface ProbeVerdict {
  /** Whether the startup probe has succeeded. True if there is none. */
  started: boolean;
  ready: boolean;
  /** Why it is not ready, or which probe cannot be made. */
  message?: string;
}

export interface PodProbesOptions {
  target: ProbeTarget;
  clock: Clock;
  /** Called when the verdict has changed. */
  onChange: () => void;
  /** Called once when the startup or liveness probe has reached its failure threshold: the Pod must end. */
  onFatal: (message: string, graceSeconds: number | undefined) => void;
  /** @default attemptProbe */
  attempt?: ProbeAttempt;
  /** The last reported status, if the Pod was started by an earlier run of the node. */
  before?: { started?: boolean | undefined; ready?: boolean | undefined } | undefined;
}

type Kind = "startup" | "readiness" | "liveness";

/**
 * Runs the probes of one Pod as a kubelet does: first the startup probe alone, then readiness and liveness, each after its
 * `initialDelaySeconds` and every `periodSeconds`, and more often until a sandbox is ready, so that it does not wait for a period. Delays count from the moment the sandbox first runs. Probes are suspended
 * while it is paused, is being checkpointed or stops.
 */
export class PodProbes {
  readonly #options: PodProbesOptions;
  readonly #specs: ReadonlyMap<Kind, ProbeSpec>;
  readonly #stops: (() => void)[] = [];
  #since: number | undefined;
  #canProbe = false;
  #started: boolean;
  #ready: boolean;
  #problem: string | undefined;
  /** Why a probe cannot be made. As with a kubelet, that is no result: it neither ends a Pod nor makes it unready. */
  readonly #unmade = new Map<Kind, string>();

  constructor(options: PodProbesOptions) {
    this.#options = options;
    this.#specs = probesOf(options.target.container);
    this.#started = !this.#specs.has("startup") || options.before?.started === true;
    this.#ready = !this.#specs.has("readiness") || options.before?.ready === true;
  }

  get verdict(): ProbeVerdict {
    const ready = this.#started && this.#ready;
    const waitsFor = this.#started ? "readiness" : "startup";
    const [unmade] = [...this.#unmade].map(([kind, why]) => `the ${kind} probe cannot be made: ${why}`);
    const message = unmade ?? this.#problem ?? `the ${waitsFor} probe has not succeeded yet`;
    return { started: this.#started, ready, ...((!ready || unmade !== undefined) && { message }) };
  }

  /** Updates the cell's state. Starts the probes when the sandbox runs for the first time. */
  follow({ phase, ready, checkpointing }: CellState): void {
    this.#canProbe = phase === "running" && ready && checkpointing === undefined;
    if (!this.#canProbe || this.#since !== undefined) return;
    this.#since = this.#options.clock.monotonicMilliseconds();
    if (this.#started) this.#startOthers();
    else this.#start("startup");
  }

  stop(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }

  #startOthers(): void {
    this.#start("readiness");
    this.#start("liveness");
  }

  #start(kind: Kind): void {
    const spec = this.#specs.get(kind);
    if (spec === undefined) return;
    const { clock } = this.#options;
    const elapsed = clock.monotonicMilliseconds() - (this.#since ?? 0);
    const stop = repeat({
      clock,
      spec,
      firstMilliseconds: Math.max(0, spec.initialDelaySeconds * 1000 - elapsed),
      isEager: () => (kind === "startup" ? !this.#started : kind === "readiness" && !this.#ready),
      attempt: (signal) => this.#attempt(kind, spec, signal),
      // A probe that was sent before a pause does not count after it.
      counts: () => this.#canProbe,
      settle: (problem) => this.#settle(kind, spec, problem),
    });
    this.#stops.push(stop);
  }

  /** Resolves with undefined if this attempt does not count. */
  async #attempt(
    kind: Kind,
    spec: ProbeSpec,
    signal: AbortSignal,
  ): Promise<{ problem: string | undefined } | undefined> {
    if (!this.#canProbe) return undefined;
    const { target, attempt = attemptProbe } = this.#options;
    try {
      const problem = await attempt(spec, target, signal);
      this.#reportUnmade(kind, undefined);
      return { problem };
    } catch (error) {
      if (!signal.aborted) this.#reportUnmade(kind, textOfError(error));
      return undefined;
    }
  }

  #reportUnmade(kind: Kind, why: string | undefined): void {
    if (!this.#canProbe || this.#unmade.get(kind) === why) return;
    if (why === undefined) this.#unmade.delete(kind);
    else this.#unmade.set(kind, why);
    this.#options.onChange();
  }

  /** Returns whether the probe continues. */
  #settle(kind: Kind, spec: ProbeSpec, problem: string | undefined): boolean {
    const message = problem === undefined ? undefined : `the ${kind} probe failed: ${problem}`;
    if (message !== undefined && kind !== "readiness") {
      this.stop();
      this.#options.onFatal(`${message} (${spec.failureThreshold} times)`, spec.terminationGracePeriodSeconds);
      return false;
    }
    if (kind === "startup") {
      this.#started = true;
      this.#startOthers();
    } else if (kind === "readiness") {
      if (this.#ready === (message === undefined) && this.#problem === message) return true;
      this.#ready = message === undefined;
      this.#problem = message;
    } else return true;
    this.#options.onChange();
    return kind !== "startup";
  }
}

/** The container's probes, without the cell's. */
function probesOf({ startupProbe, readinessProbe, livenessProbe }: Container): ReadonlyMap<Kind, ProbeSpec> {
  const found = new Map<Kind, ProbeSpec>();
  if (startupProbe !== undefined) found.set("startup", ProbeSpec.parse(startupProbe));
  if (readinessProbe !== undefined && !isCellProbe(readinessProbe))
    found.set("readiness", ProbeSpec.parse(readinessProbe));
  if (livenessProbe !== undefined) found.set("liveness", ProbeSpec.parse(livenessProbe));
  return found;
}

interface RepeatOptions {
  clock: Clock;
  spec: ProbeSpec;
  firstMilliseconds: number;
  /** Whether a success is awaited: further attempts are then made in each period. Their failures do not count. */
  isEager: () => boolean;
  /** Resolves with undefined if this attempt does not count. */
  attempt: (signal: AbortSignal) => Promise<{ problem: string | undefined } | undefined>;
  counts: () => boolean;
  /** Called when a threshold is reached or exceeded. Returns whether to continue. */
  settle: (problem: string | undefined) => boolean;
}

/** Between the first attempts in a period. The time doubles after each, up to a second. */
const eagerMilliseconds = 100;

function repeat({ clock, spec, firstMilliseconds, attempt, counts, settle, isEager }: RepeatOptions): () => void {
  const stopped = new AbortController();
  let successes = 0;
  let failures = 0;
  let eager = eagerMilliseconds;
  let periodEnds = -Infinity;
  let cancel = clock.schedule(firstMilliseconds, () => void turn());
  const turn = async (): Promise<void> => {
    const startedAt = clock.monotonicMilliseconds();
    const isExtra = startedAt < periodEnds;
    if (!isExtra) periodEnds = startedAt + spec.periodSeconds * 1000;
    const deadline = { clock, milliseconds: spec.timeoutSeconds * 1000, what: "the probe", signal: stopped.signal };
    const result = await within(deadline, attempt);
    if (stopped.signal.aborted) return;
    const isResult = result !== undefined && (!isExtra || result.problem === undefined);
    if (isResult && counts()) {
      successes = result.problem === undefined ? successes + 1 : 0;
      failures = result.problem === undefined ? 0 : failures + 1;
      const isSettled = successes >= spec.successThreshold || failures >= spec.failureThreshold;
      if (isSettled && !settle(result.problem)) return;
    }
    cancel = clock.schedule(pause(periodEnds - clock.monotonicMilliseconds()), () => void turn());
  };
  const pause = (left: number): number => {
    const wanted = isEager() ? Math.min(eager, left) : left;
    eager = Math.min(2 * eager, 1000);
    return Math.max(0, wanted);
  };
  return () => {
    stopped.abort();
    cancel();
  };
}
