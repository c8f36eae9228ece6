import { EventEmitter } from "node:events";
import type { CellState } from "../../api/cell/cell-api.ts";
import { RametError } from "../../base/errors.ts";

/** What a cell is at present, and who hears when that changes. */
export class States {
  readonly #changes = new EventEmitter();
  #now: CellState = { phase: "preparing", generation: 0, ready: false };

  get now(): CellState {
    return this.#now;
  }

  /** Calls `listener` at each change; what is returned ends that. */
  onChange(listener: (state: CellState) => void): () => void {
    this.#changes.on("change", listener);
    return () => this.#changes.off("change", listener);
  }

  set(change: Partial<CellState>): CellState {
    this.#now = { ...this.#now, ...change };
    this.#changes.emit("change", this.#now);
    return this.#now;
  }

  unset(name: "checkpointing" | "swapping" | "memory"): void {
    const { [name]: _, ...rest } = this.#now;
    this.#now = rest;
    this.#changes.emit("change", rest);
  }

  /** @throws RametError `SandboxNotReady`, unless the sandbox runs and can be reached */
  requireReady(what: string): void {
    const { phase, ready } = this.#now;
    if (phase !== "running" || !ready)
      throw new RametError("SandboxNotReady", `${what}: the sandbox is ${phase}, not running and ready`);
  }

  /** @throws RametError as `requireReady`, and `Conflict` while another operation needs the whole sandbox */
  requireFree(what: string): void {
    const { checkpointing, swapping } = this.#now;
    const other = checkpointing === undefined ? swapping && "a swap is under way" : `${checkpointing} is being taken`;
    if (other !== undefined) throw new RametError("Conflict", `${what}: ${other}`, { retryable: true });
    this.requireReady(what);
  }
}

/** The last call of one operation: a repeat of it finds what it did, or joins it. One that has failed is forgotten. */
export class LastOperation<T> {
  #last: { key: string; result: Promise<T> } | undefined;

  /** The answer of the last call, if it bore this key. */
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

  /** Resolves when nothing of it is under way. */
  async settled(): Promise<void> {
    await this.#last?.result.catch(() => undefined);
  }
}
