import { RametError } from "../../base/errors.ts";
import type { CellCore } from "./cell-core.ts";

/** The end of a sandbox that its node requests with SIGTERM. */
export class Termination {
  readonly #core: CellCore;
  #reason: string | undefined;

  constructor(core: CellCore) {
    this.#core = core;
  }

  /** Why the entrypoint was asked to exit. After that the end of the sandbox is not a failure. */
  get reason(): string | undefined {
    return this.#reason;
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
    const graceMilliseconds = Math.max(0, setting.config.graceSeconds * 1000 - destroyMilliseconds);
    const cancel = clock.schedule(graceMilliseconds, () => {
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

/** The part of the grace period that is reserved for removing the sandbox. */
const destroyMilliseconds = 1_000;
