import { RametError } from "../../base/errors.ts";
import { isMemory, Sandbox, type SandboxOptions, type SandboxOrigin } from "./sandbox.ts";

export interface SandboxSlotsOptions {
  place: SandboxOptions;
  /** Called when the one that runs has ended without having been asked to. */
  onLost: (why: RametError) => void;
}

/** The sandboxes of one cell, which have its place one after another: the one that runs, one that waits, one that was replaced. */
export class SandboxSlots {
  readonly #options: SandboxSlotsOptions;
  #present: Sandbox | undefined;
  /** Made, and nothing runs in it. */
  #waiting: Promise<Sandbox> | undefined;
  /** Stands still since another one has its place. */
  #replaced: Sandbox | undefined;
  /** The last thing that was begun; what takes all away comes after it. */
  #busy: Promise<unknown> = Promise.resolve();

  constructor(options: SandboxSlotsOptions) {
    this.#options = options;
  }

  /** The one that runs. */
  get present(): Sandbox | undefined {
    return this.#present;
  }

  /** Starts the first one. */
  start(origin: SandboxOrigin): Promise<void> {
    return this.#begun(this.#start(origin));
  }

  /** Makes the one that `replacement` will begin with, unless there is one: that takes longer than all the rest of it. */
  async keepWaiting(): Promise<void> {
    if (this.#waiting !== undefined) return;
    const waiting = this.#begun(Sandbox.keep(this.#options.place));
    this.#waiting = waiting;
    // One that cannot be made now may be made when it is needed, and then says what is wrong.
    waiting.catch(() => {
      if (this.#waiting === waiting) this.#waiting = undefined;
    });
    await waiting;
  }

  /**
   * Makes everything ready for another one in the place of the one that runs, and answers how to take that step. Until it is
   * taken, nothing has happened to the one that runs; what it takes back cannot be had again.
   */
  async replacement(old: Sandbox, origin: SandboxOrigin): Promise<(prepare: () => Promise<void>) => Promise<void>> {
    const [next] = await this.#begun(Promise.all([this.#next(origin), this.removeReplaced()]));
    return (prepare) => this.#begun(this.#replace({ old, next, origin, prepare }));
  }

  /** Takes away what was replaced: once the other one answers, as it takes the processor. */
  async removeReplaced(): Promise<void> {
    const old = this.#replaced;
    this.#replaced = undefined;
    await old?.destroy();
  }

  async remove(): Promise<void> {
    await this.#busy;
    const waiting = await this.#waiting?.catch(() => undefined);
    await Promise.all([this.#present?.destroy(), waiting?.destroy(), this.removeReplaced()]);
  }

  async #start(origin: SandboxOrigin): Promise<void> {
    this.#follow(await Sandbox.start(this.#options.place, origin));
  }

  async #next(origin: SandboxOrigin): Promise<Sandbox> {
    const waiting = await this.#take(origin);
    return waiting ?? Sandbox.create(this.#options.place, isMemory(origin) ? "image" : origin);
  }

  async #replace(step: {
    old: Sandbox;
    next: Sandbox;
    origin: SandboxOrigin;
    prepare: () => Promise<void>;
  }): Promise<void> {
    const { old, next, origin, prepare } = step;
    this.#replaced = old;
    await Promise.all([old.giveWay(), prepare()]);
    await this.#begin(next, origin);
  }

  async #begin(sandbox: Sandbox, origin: SandboxOrigin): Promise<void> {
    this.#follow(sandbox);
    await sandbox.begin(isMemory(origin) ? origin : undefined);
  }

  /**
   * The one that waits, if it is still there, for an origin that it can have: files are laid over the image when a sandbox is
   * made.
   */
  async #take(origin: SandboxOrigin): Promise<Sandbox | undefined> {
    if (origin !== "image" && !isMemory(origin)) return undefined;
    const taken = this.#waiting;
    this.#waiting = undefined;
    const waiting = await taken?.catch(() => undefined);
    if (waiting === undefined || (!waiting.isGone && (await waiting.engine.isThere()))) return waiting;
    await waiting.destroy();
    return undefined;
  }

  #follow(sandbox: Sandbox): void {
    this.#present = sandbox;
    void sandbox.untilLost().then(() => {
      if (!sandbox.destroyed)
        this.#options.onLost(new RametError("SandboxLost", "the sandbox's processes ended without being asked to"));
    });
  }

  #begun<T>(work: Promise<T>): Promise<T> {
    this.#busy = work.catch(() => undefined);
    return work;
  }
}
