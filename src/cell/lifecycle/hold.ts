import type { HoldRequest, ReleaseResult } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { type HeldPause, quiesce } from "../checkpoint/capture.ts";
import type { Engine } from "../sandbox/engine.ts";
import type { CellCore } from "./cell-core.ts";
import { runProgram } from "../../base/run-program.ts";

interface Pause extends HeldPause {
  checkpointId: string;
  engine: Engine;
  cancelTimer: () => void;
}

/**
 * Keeps a sandbox paused while somebody else captures its volumes. A controller that dies never leaves it paused: the cell resumes it
 * after the requested time.
 */
export class Hold {
  readonly #core: CellCore;
  #pause: Pause | undefined;

  constructor(core: CellCore) {
    this.#core = core;
  }

  isFor(checkpointId: string): boolean {
    return this.#pause?.checkpointId === checkpointId;
  }

  /** Flushes the files of the running sandbox, and what the kernel of the node has of its volumes. */
  async flush(): Promise<void> {
    const { environment, clock } = this.#core;
    await quiesce({ guest: environment.guest(), clock });
    await syncMounts(this.#volumePaths());
  }

  /**
   * Flushes the files of the sandbox, pauses it, and flushes its volumes again: a snapshot of a disk has only what has reached the
   * disk.
   * @throws RametError `Timeout` or `EngineFailed`; the sandbox then runs
   */
  async begin({ checkpointId, milliseconds }: HoldRequest): Promise<void> {
    const { environment, clock, states, report } = this.#core;
    const { engine } = environment.sandbox;
    states.set({ checkpointing: checkpointId });
    try {
      // A flush now shortens the flush during the pause.
      await this.flush();
      const sinceMilliseconds = clock.monotonicMilliseconds();
      await engine.pause();
      const cancelTimer = clock.schedule(milliseconds, () => {
        report("the sandbox was resumed before its checkpoint was captured", { checkpointId });
        void this.end(checkpointId);
      });
      this.#pause = { checkpointId, engine, sinceMilliseconds, cancelTimer };
      await syncMounts(this.#volumePaths());
    } catch (error) {
      await this.end(checkpointId);
      states.unset("checkpointing");
      throw error;
    }
  }

  /**
   * Hands the pause over to the capture of the checkpoint, which resumes the sandbox.
   * @throws RametError `Timeout` if the sandbox is not paused for it any more
   */
  take(checkpointId: string): HeldPause {
    const pause = this.#remove(checkpointId);
    if (pause !== undefined) return pause;
    throw new RametError("Timeout", "checkpoint: the sandbox was resumed before its volumes were captured", {
      hint: "Leave out requireAtomic, or use volumes whose driver captures them faster",
    });
  }

  /** Resumes the sandbox, if it is paused. @param checkpointId only if it is paused for this one */
  async end(checkpointId = this.#pause?.checkpointId): Promise<ReleaseResult> {
    const pause = this.#remove(checkpointId);
    if (pause === undefined) return {};
    const { clock, states, report } = this.#core;
    try {
      await pause.engine.resume();
    } catch (error) {
      report("resuming the sandbox failed", { message: RametError.from(error).message });
    }
    states.unset("checkpointing");
    return { pausedMilliseconds: Math.round((clock.monotonicMilliseconds() - pause.sinceMilliseconds) * 10) / 10 };
  }

  #remove(checkpointId: string | undefined): Pause | undefined {
    const pause = this.#pause;
    if (pause === undefined || pause.checkpointId !== checkpointId) return undefined;
    pause.cancelTimer();
    this.#pause = undefined;
    return pause;
  }

  /** Returns the paths in the cell of writable mounts from outside the sandbox. */
  #volumePaths(): string[] {
    const { mounts } = this.#core.setting.config.container;
    return mounts.filter(({ emptyDir, readOnly }) => emptyDir === undefined && !readOnly).map(({ source }) => source);
  }
}

/** The pause of a sandbox is limited too. */
const timeoutMilliseconds = 20_000;

/**
 * Writes to its disk what the node's kernel has in memory of each mounted file system (syncfs(2)). Node.js has no such call, so this
 * starts coreutils' `sync`.
 * @throws RametError `Timeout`; `EngineFailed` if a file system cannot be written
 */
async function syncMounts(paths: readonly string[]): Promise<void> {
  if (paths.length === 0) return;
  const { code, stderr } = await runProgram({
    program: "sync",
    args: ["--file-system", "--", ...paths],
    timeoutMilliseconds,
  });
  if (code === 0) return;
  throw new RametError("EngineFailed", `Flushing the volumes failed: ${stderr.trim().slice(0, 500)}`);
}
