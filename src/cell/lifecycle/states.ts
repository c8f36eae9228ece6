import { EventEmitter } from "node:events";
import type { CellState } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";

/** The current state of a cell and its listeners. */
export class States {
  readonly #changes = new EventEmitter();
  #now: CellState = { phase: "preparing", generation: 0, ready: false };

  get now(): CellState {
    return this.#now;
  }

  /** Calls `listener` on each change. Returns a function that removes the listener. */
  onChange(listener: (state: CellState) => void): () => void {
    this.#changes.on("change", listener);
    return () => this.#changes.off("change", listener);
  }

  set(change: Partial<CellState>): CellState {
    this.#now = { ...this.#now, ...change };
    this.#changes.emit("change", this.#now);
    return this.#now;
  }

  unset(name: "checkpointing" | "swapping" | "memory" | "endHeld"): void {
    const { [name]: _, ...rest } = this.#now;
    this.#now = rest;
    this.#changes.emit("change", rest);
  }

  /** @throws RametError `SandboxNotReady` unless the sandbox is running and ready */
  requireReady(what: string): void {
    const { phase, ready } = this.#now;
    if (phase !== "running" || !ready)
      throw new RametError("SandboxNotReady", `${what}: the sandbox is ${phase}, not running and ready`);
  }

  /** @throws RametError as `requireReady`; `Conflict` while a checkpoint or a restore in place is in progress */
  requireIdle(what: string): void {
    const { checkpointing, swapping } = this.#now;
    const other =
      checkpointing === undefined ? swapping && "a restore in place" : `the capture of checkpoint ${checkpointing}`;
    if (other !== undefined) throw new RametError("Conflict", `${what}: ${other} is in progress`, { retryable: true });
    this.requireReady(what);
  }
}

/** The last call of one operation. A repeated call joins it or returns its result. A failed call is forgotten. */
export class LastOperation<T> {
  #last: { key: string; result: Promise<T> } | undefined;

  /** The result of the last call if it had this key. */
  repeated(key: string): Promise<T> | undefined {
    return this.#last?.key === key ? this.#last.result : undefined;
  }

  remember(key: string, result: Promise<T>): Promise<T> {
    const call = { key, result };
    this.#last = call;
    result.catch(() => {
      if (this.#last === call) this.#last = undefined;
    });
    return result;
  }

  /** Resolves when no call is in progress. */
  async settled(): Promise<void> {
    await this.#last?.result.catch(() => undefined);
  }
}
