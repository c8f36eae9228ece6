import { RametError } from "../../base/errors.ts";
import type { CellConfig, CellState } from "../../api/wire/cell-api.ts";
import type { Engine } from "../sandbox/engine.ts";
import type { CellCore } from "./cell-core.ts";

interface TerminationParts extends Pick<CellCore, "clock" | "states" | "report"> {
  setting: { config: Pick<CellConfig, "graceSeconds" | "podGraceSeconds"> };
  environment: { sandbox: { engine: Pick<Engine, "signal"> } };
}

/**
 * The end of a sandbox that its node requests with SIGTERM. If the controllers may continue the sandbox elsewhere, it is held: the
 * sandbox runs on until a checkpoint has ended it, a controller says that the end is intended, or the time that a normal end needs
 * begins.
 */
export class Termination {
  readonly #core: TerminationParts;
  readonly #intended = Promise.withResolvers<undefined>();
  /** When the node kills the cell, on the monotonic clock, as far as the Pod's grace period says. */
  #deadline: number | undefined;
  #reason: string | undefined;

  constructor(core: TerminationParts) {
    this.#core = core;
  }

  /** Why the entrypoint was asked to exit. After that the end of the sandbox is not a failure. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Nobody captures the sandbox: the end of its Pod is not held any more. */
  intend(): void {
    this.#intended.resolve(undefined);
  }

  /** Resolves when the end is not held, or not any more. The sandbox may have been captured and ended by then. */
  async held(): Promise<void> {
    const { setting, clock, states } = this.#core;
    const { podGraceSeconds, graceSeconds } = setting.config;
    if (podGraceSeconds === undefined || !mayRun(states.now)) return;
    this.#deadline ??= clock.monotonicMilliseconds() + podGraceSeconds * 1000;
    const left = Promise.withResolvers<undefined>();
    const removeListener = states.onChange((state) => {
      if (!mayRun(state)) left.resolve(undefined);
    });
    const cancel = clock.schedule(heldMilliseconds(podGraceSeconds, graceSeconds), () => {
      left.resolve(undefined);
    });
    states.set({ endHeld: true });
    await Promise.race([this.#intended.promise, left.promise]);
    cancel();
    removeListener();
    states.unset("endHeld");
  }

  /**
   * Asks the entrypoint to exit. Resolves when it has exited, when the sandbox has left `running`, or when the grace period is over.
   */
  async signalEntrypoint(reason: string): Promise<void> {
    this.#reason = reason;
    const { setting, clock, states, environment, report } = this.#core;
    const exited = Promise.withResolvers<undefined>();
    const removeListener = states.onChange(({ phase, exitCode }) => {
      if (phase !== "running" || exitCode !== undefined) exited.resolve(undefined);
    });
    const ownMilliseconds = setting.config.graceSeconds * 1000;
    const leftMilliseconds = (this.#deadline ?? Infinity) - clock.monotonicMilliseconds();
    const graceMilliseconds = Math.min(ownMilliseconds, leftMilliseconds) - destroyMilliseconds;
    const cancel = clock.schedule(Math.max(0, graceMilliseconds), () => {
      exited.resolve(undefined);
    });
    try {
      await environment.sandbox.engine.signal("TERM");
      await exited.promise;
    } catch (error) {
      report("sending SIGTERM to the entrypoint failed", { message: RametError.from(error).message });
    } finally {
      cancel();
      removeListener();
    }
  }
}

/** A restore may still run the sandbox, which can be captured then. */
function mayRun({ phase }: Pick<CellState, "phase">): boolean {
  return phase === "running" || phase === "restoring";
}

/** A hold leaves the entrypoint its own grace period, up to this time or half of the Pod's. */
const reservedSeconds = 10;

function heldMilliseconds(podGraceSeconds: number, graceSeconds: number): number {
  const reserved = Math.min(graceSeconds, reservedSeconds, podGraceSeconds / 2);
  return (podGraceSeconds - reserved) * 1000 - destroyMilliseconds;
}

/** The part of the grace period that is reserved for removing the sandbox. */
const destroyMilliseconds = 1_000;
