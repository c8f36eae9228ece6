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
