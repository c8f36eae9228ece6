import { RametError } from "../../base/errors.ts";
import { isMemory, Sandbox, type SandboxOptions, type SandboxOrigin } from "./sandbox.ts";

export interface SandboxSlotsOptions {
  /** The options with which every sandbox of the cell is created. */
  sandbox: SandboxOptions;
  /** Called when the current sandbox has ended unexpectedly. */
  onLost: (why: RametError) => void;
}

/** The sandboxes of one cell: the current one, one that waits to replace it, and one that was replaced. */
export class SandboxSlots {
  readonly #options: SandboxSlotsOptions;
  #current: Sandbox | undefined;
  /** Created; nothing runs in it. */
  #waiting: Promise<Sandbox> | undefined;
  /** Stopped, and not removed yet. */
  #replaced: Sandbox | undefined;
  /** The last operation. `remove` waits for it. */
  #busy: Promise<unknown> = Promise.resolve();

  constructor(options: SandboxSlotsOptions) {
    this.#options = options;
  }

  /** The sandbox that runs. */
  get current(): Sandbox | undefined {
    return this.#current;
  }

  /** Starts the first sandbox. A memory goes into the waiting sandbox if there is one. */
  start(origin: SandboxOrigin): Promise<void> {
    return this.#track(this.#start(origin));
  }

  /** Creates the waiting sandbox if there is none. Creating it takes longer than the rest of a replacement. */
  async keepWaiting(): Promise<void> {
    if (this.#waiting !== undefined) return;
    const waiting = this.#track(Sandbox.createWaiting(this.#options.sandbox));
    this.#waiting = waiting;
    // A replacement then creates it and reports the error.
    waiting.catch(() => {
      if (this.#waiting === waiting) this.#waiting = undefined;
    });
    await waiting;
  }

  /**
   * Prepares the sandbox that replaces the current one, and returns the function that replaces it. The current sandbox keeps
   * running until that function is called; after that it cannot be brought back.
   */
  async prepareReplacement(
    old: Sandbox,
    origin: SandboxOrigin,
  ): Promise<(prepareNetwork: () => Promise<void>) => Promise<void>> {
    const [next] = await this.#track(Promise.all([this.#next(origin), this.removeReplaced()]));
    return (prepareNetwork) => this.#track(this.#replace({ old, next, origin, prepareNetwork }));
  }

  /** Removes the replaced sandbox. This takes CPU: call it when the new sandbox responds. */
  async removeReplaced(): Promise<void> {
    const old = this.#replaced;
    this.#replaced = undefined;
    await old?.destroy();
  }

  async remove(): Promise<void> {
    await this.#busy;
    const waiting = await this.#waiting?.catch(() => undefined);
    await Promise.all([this.#current?.destroy(), waiting?.destroy(), this.removeReplaced()]);
  }

  async #start(origin: SandboxOrigin): Promise<void> {
    const waiting = isMemory(origin) ? await this.#takeWaiting(origin) : undefined;
    if (waiting === undefined || !isMemory(origin)) {
      this.#setCurrent(await Sandbox.start(this.#options.sandbox, origin));
      return;
    }
    this.#setCurrent(waiting);
    await waiting.run(origin);
  }

  async #next(origin: SandboxOrigin): Promise<Sandbox> {
    const waiting = await this.#takeWaiting(origin);
    return waiting ?? Sandbox.create(this.#options.sandbox, isMemory(origin) ? "image" : origin);
  }

  async #replace(step: {
    old: Sandbox;
    next: Sandbox;
    origin: SandboxOrigin;
    prepareNetwork: () => Promise<void>;
  }): Promise<void> {
    const { old, next, origin, prepareNetwork } = step;
    this.#replaced = old;
    await Promise.all([old.halt(), prepareNetwork()]);
    this.#setCurrent(next);
    await next.run(isMemory(origin) ? origin : undefined);
  }

  /**
   * Returns the waiting sandbox if it still exists and fits the origin. It does not fit an origin with changed files, which
   * are applied when a sandbox is created.
   */
  async #takeWaiting(origin: SandboxOrigin): Promise<Sandbox | undefined> {
    if (origin !== "image" && !isMemory(origin)) return undefined;
    const taken = this.#waiting;
    this.#waiting = undefined;
    const waiting = await taken?.catch(() => undefined);
    if (waiting === undefined || (!waiting.hasEnded && (await waiting.engine.isRunning()))) return waiting;
    await waiting.destroy();
    return undefined;
  }

  #setCurrent(sandbox: Sandbox): void {
    this.#current = sandbox;
    void sandbox.untilLost().then(() => {
      if (!sandbox.destroyed)
        this.#options.onLost(new RametError("SandboxLost", "the sandbox's processes ended unexpectedly"));
    });
  }

  #track<T>(work: Promise<T>): Promise<T> {
    this.#busy = work.catch(() => undefined);
    return work;
  }
}
