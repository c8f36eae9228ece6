import { type BackoffOptions, backoffMilliseconds, delay } from "../base/clock.ts";
import { defined } from "../base/defined.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { KubeObject } from "./object.ts";
import type { ResourceClient, SelectOptions } from "./resource-client.ts";
import type { ResourceRef } from "./resource-ref.ts";
import { isExpired } from "./status-error.ts";
import type { ObjectStore } from "./store.ts";

export interface ReflectorTimings {
  /** The server ends a watch after one to two times this time. */
  watchTimeoutSeconds: number;
  /** See `WatchOptions.stallMilliseconds`. */
  stallMilliseconds: number;
  /** All objects are listed again after 1 to 1.5 times this time, because a watch may miss changes. */
  relistMilliseconds: number;
  /** The pauses between failures. */
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
  select: Pick<SelectOptions, "labelSelector" | "fieldSelector">;
  /** Only the objects of this namespace; of the resource `namespaces`, only this one. @default all */
  namespace?: string | undefined;
  store: ObjectStore<T>;
  /** Parses an object as the server sent it. If it throws, the error is logged and the object skipped. */
  parse: (value: unknown) => T;
  timings: ReflectorTimings;
  log: Log;
  /** Called after each list, when the store contains it. */
  onList?: () => void;
  /** Called after each result, good or bad: a page of a list, an event, a failure, the end of a pause. */
  onProgress?: () => void;
  /** Called after each answer of the API server to a list or a watch, from which the store is up to date. */
  onAnswer?: () => void;
  /** Called after each failure, from which the store may be out of date until a watch is open again. */
  onFailure?: () => void;
  /** Called when the API server has accepted a watch. Its first event may come only after a minute. */
  onWatch?: () => void;
}

/**
 * Keeps a store in sync with the API server: lists, then watches from there. It recovers from every failure, and lists again
 * when the resource version has expired, when watches keep failing, and periodically. Returns when `signal` is aborted; never
 * throws.
 */
export async function runReflector<T extends KubeObject>(
  options: ReflectorOptions<T>,
  signal: AbortSignal,
): Promise<void> {
  const reflector = new Reflector(options, signal);
  // A function, because the compiler would assume that the property stays false.
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
  /** Consecutive failures; a success resets it. */
  #failures = 0;
  #lastHasExpired = false;
  #unpagedList = false;
  /** Without selectors, an object that disappears is deleted. */
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
        // Only a new list helps with an expired resource version and a server that keeps refusing.
        if (isExpired(error) || this.#failures >= failuresBeforeRelist) throw error;
        await this.pauseAfter(error);
      }
      resourceVersion = watch.resourceVersion;
    }
  }

  /** Waits after a failure, longer after each consecutive one. */
  async pauseAfter(error: unknown): Promise<void> {
    if (this.#signal.aborted) return;
    const { resource, timings, log, onProgress, onFailure } = this.#options;
    onProgress?.();
    onFailure?.();
    // A server that reports an expired version is reachable, and a list helps: a short pause is enough.
    if (isExpired(error) && !this.#lastHasExpired) this.#failures = 0;
    this.#lastHasExpired = isExpired(error);
    const pause = backoffMilliseconds(timings.backoff, this.#failures++, resource.client.random);
    const fields = { error: RametError.from(error).message, pauseMilliseconds: Math.round(pause) };
    // A single failure is normal: an expired resource version or a closed connection.
    if (this.#failures === 1) log.debug(fields, `the watch of ${resource.ref.plural} was interrupted`);
    else log.warn({ ...fields, failures: this.#failures }, `the watch of ${resource.ref.plural} keeps failing`);
    await delay(resource.client.clock, pause, this.#signal).catch(() => undefined);
    onProgress?.();
  }

  async #list(): Promise<string> {
    const { resource, namespace, store, onList, onProgress, onAnswer } = this.#options;
    const paging = { ...(this.#unpagedList && { pageSize: 0 }), ...defined({ onPage: onProgress }) };
    try {
      const { items, resourceVersion } = await resource.listRaw({ ...this.#select(), ...paging, signal: this.#signal });
      store.replace(
        items.flatMap((item) => this.#parsed(item)),
        this.#selectsAll,
        namespace,
      );
      this.#unpagedList = false;
      onAnswer?.();
      onList?.();
      return resourceVersion;
    } catch (error) {
      // If the pages expire before all are read, request the whole list, as client-go does.
      if (isExpired(error)) this.#unpagedList = true;
      throw error;
    }
  }

  /** @param at its resource version is updated with each event, also if this throws */
  async #watch(at: { resourceVersion: string }): Promise<void> {
    const { resource, timings, onProgress, onAnswer, onWatch } = this.#options;
    for await (const event of resource.watch({
      ...this.#select(),
      resourceVersion: at.resourceVersion,
      timeoutSeconds: Math.round(this.#spread(timings.watchTimeoutSeconds, 1)),
      stallMilliseconds: timings.stallMilliseconds,
      onOpen: onWatch,
      signal: this.#signal,
    })) {
      this.#failures = 0;
      onProgress?.();
      onAnswer?.();
      if (event.type === "BOOKMARK") at.resourceVersion = event.resourceVersion;
      else at.resourceVersion = this.#take(event.type, event.object) ?? at.resourceVersion;
    }
    this.#failures = 0;
  }

  #select(): SelectOptions {
    const { resource, select, namespace } = this.#options;
    return { ...select, ...selectNamespace(resource.ref, namespace) };
  }

  /** Returns the object's resource version, from which a watch can resume. */
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
      this.#options.log.warn({ error: RametError.from(error).message }, `skipped an invalid ${kind}`);
      return [];
    }
  }

  /** Randomizes times, so that clients that started together do not act simultaneously. */
  #spread(least: number, share: number): number {
    return least * (1 + share * this.#options.resource.client.random());
  }
}

const failuresBeforeRelist = 5;

/** Selects the objects of one namespace; of the resource `namespaces`, that one. @param namespace undefined: all */
export function selectNamespace(
  { namespaced }: Pick<ResourceRef, "namespaced">,
  namespace: string | undefined,
): Pick<SelectOptions, "namespace" | "fieldSelector"> {
  if (namespace === undefined) return {};
  // RBAC knows the name in this field selector, so it can allow single namespaces.
  return namespaced ? { namespace } : { fieldSelector: `metadata.name=${namespace}` };
}
