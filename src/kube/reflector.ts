import { RametError } from "../base/errors.ts";
import { backoffMilliseconds, type BackoffOptions } from "../base/backoff.ts";
import { delay } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { KubeObject } from "./object.ts";
import type { ResourceClient, SelectOptions } from "./resource-client.ts";
import { isExpired } from "./status-error.ts";
import type { ObjectStore } from "./store.ts";

export interface ReflectorTimings {
  /** The server ends a watch after this and up to twice as long. */
  watchTimeoutSeconds: number;
  /** See `WatchOptions.stallMilliseconds`. */
  stallMilliseconds: number;
  /** Everything is listed again after this and up to half as long again: nothing trusts a watch to be complete. */
  relistMilliseconds: number;
  /** Between failures. */
  backoff: BackoffOptions;
}

export const defaultReflectorTimings: ReflectorTimings = {
  watchTimeoutSeconds: 240,
  stallMilliseconds: 90_000,
  relistMilliseconds: 600_000,
  backoff: { baseMilliseconds: 200, maxMilliseconds: 30_000 },
};

export interface ReflectorOptions<T extends KubeObject> {
  resource: ResourceClient<T>;
  select: Pick<SelectOptions, "namespace" | "labelSelector" | "fieldSelector">;
  store: ObjectStore<T>;
  /** From an object as the server sent it. What it throws for one object is logged, and the object left out. */
  parse: (value: unknown) => T;
  timings: ReflectorTimings;
  log: Log;
  /** Called after each list, when the store has it. */
  onList?: () => void;
  /** Called after each result, good or bad: a page of a list, an event, a failure, the end of a pause. */
  onProgress?: () => void;
}

/**
 * Keeps a store equal to what the API server has: lists, watches from there, goes on after every kind of failure, and
 * lists again when the server has forgotten the resource version, when watches keep failing, and from time to time.
 * Returns when `signal` is aborted; never throws.
 */
export async function runReflector<T extends KubeObject>(
  options: ReflectorOptions<T>,
  signal: AbortSignal,
): Promise<void> {
  const reflector = new Reflector(options, signal);
  // A method and not the property, which the compiler would take to stay false.
  const ended = (): boolean => signal.aborted;
  while (!ended()) {
    options.onProgress?.();
    try {
      await reflector.listAndWatch();
    } catch (error) {
      await reflector.pauseAfter(error);
    }
  }
}

class Reflector<T extends KubeObject> {
  readonly #options: ReflectorOptions<T>;
  readonly #signal: AbortSignal;
  /** In a row; what goes well sets it back. */
  #failures = 0;
  #lastHasExpired = false;
  #unpagedList = false;
  /** Without selectors, what is gone from view is gone. */
  readonly #selectsAll: boolean;

  constructor(options: ReflectorOptions<T>, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
    this.#selectsAll = options.select.labelSelector === undefined && options.select.fieldSelector === undefined;
  }

  async listAndWatch(): Promise<void> {
    const { client } = this.#options.resource;
    let resourceVersion = await this.#list();
    const relistAt = client.clock.monotonicMilliseconds() + this.#spread(this.#options.timings.relistMilliseconds, 0.5);
    while (!this.#signal.aborted && client.clock.monotonicMilliseconds() < relistAt) {
      const watch = { resourceVersion };
      try {
        await this.#watch(watch);
        this.#options.onProgress?.();
      } catch (error) {
        // An old resource version, and a server that refuses again and again, are both healed by a new list only.
        if (isExpired(error) || this.#failures >= failuresBeforeRelist) throw error;
        await this.pauseAfter(error);
      }
      resourceVersion = watch.resourceVersion;
    }
  }

  /** Waits after a failure; longer each time in a row. */
  async pauseAfter(error: unknown): Promise<void> {
    if (this.#signal.aborted) return;
    const { resource, timings, log, onProgress } = this.#options;
    onProgress?.();
    // Who says that it has forgotten a version has been reached, and only a list helps: that need not wait as long.
    if (isExpired(error) && !this.#lastHasExpired) this.#failures = 0;
    this.#lastHasExpired = isExpired(error);
    const pause = backoffMilliseconds(timings.backoff, this.#failures++, resource.client.random);
    const fields = { error: RametError.from(error).message, pauseMilliseconds: Math.round(pause) };
    // The first failure is daily business: an old resource version, a connection that ended.
    if (this.#failures === 1) log.debug(fields, `following ${resource.ref.plural} was interrupted`);
    else log.warn({ ...fields, failures: this.#failures }, `following ${resource.ref.plural} fails`);
    await delay(resource.client.clock, pause, this.#signal).catch(() => undefined);
    onProgress?.();
  }

  async #list(): Promise<string> {
    const { resource, select, store, onList, onProgress } = this.#options;
    const paging = { ...(this.#unpagedList && { pageSize: 0 }), ...(onProgress && { onPage: onProgress }) };
    try {
      const { items, resourceVersion } = await resource.listRaw({ ...select, ...paging, signal: this.#signal });
      store.replace(
        items.flatMap((item) => this.#parsed(item)),
        this.#selectsAll,
      );
      this.#unpagedList = false;
      onList?.();
      return resourceVersion;
    } catch (error) {
      // A list too long to be read in pages before they expire is asked for whole, as client-go does.
      if (isExpired(error)) this.#unpagedList = true;
      throw error;
    }
  }

  /** @param at its resource version moves on with what is seen, also when this throws */
  async #watch(at: { resourceVersion: string }): Promise<void> {
    const { resource, select, timings, onProgress } = this.#options;
    for await (const event of resource.watch({
      ...select,
      resourceVersion: at.resourceVersion,
      timeoutSeconds: Math.round(this.#spread(timings.watchTimeoutSeconds, 1)),
      stallMilliseconds: timings.stallMilliseconds,
      signal: this.#signal,
    })) {
      this.#failures = 0;
      onProgress?.();
      if (event.type === "BOOKMARK") at.resourceVersion = event.resourceVersion;
      else at.resourceVersion = this.#take(event.type, event.object) ?? at.resourceVersion;
    }
    this.#failures = 0;
  }

  /** Answers the object's resource version, from which a watch can go on. */
  #take(type: "ADDED" | "MODIFIED" | "DELETED", value: unknown): string | undefined {
    const [object] = this.#parsed(value);
    if (object === undefined) return undefined;
    const { store } = this.#options;
    if (type === "DELETED") store.remove(object, this.#selectsAll);
    else store.put(object);
    return object.metadata.resourceVersion;
  }

  #parsed(value: unknown): [T] | [] {
    try {
      return [this.#options.parse(value)];
    } catch (error) {
      const { kind } = this.#options.resource.ref;
      this.#options.log.warn({ error: RametError.from(error).message }, `a ${kind} that is not legal is left out`);
      return [];
    }
  }

  /** Of many clients that started together, not all do the next thing together. */
  #spread(least: number, share: number): number {
    return least * (1 + share * this.#options.resource.client.random());
  }
}

const failuresBeforeRelist = 5;
