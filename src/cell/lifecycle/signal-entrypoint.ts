import { RametError } from "../../base/errors.ts";
import type { CellCore } from "./cell-core.ts";

/**
 * Asks the entrypoint to exit. Resolves when it has exited, when the sandbox has left `running`, or when the grace period is over.
 */
export async function signalEntrypoint({ setting, clock, states, environment, report }: CellCore): Promise<void> {
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

/** The part of the grace period that is reserved for removing the sandbox. */
const destroyMilliseconds = 1_000;
