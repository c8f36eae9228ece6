import { acceptsDigest, expiryOf, type KeyValue } from "../api/keys/api-key-rules.ts";
import { type ApiKey, apiKeyKind } from "../api/kinds/api-key.ts";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import { Slots, takeAll } from "../base/slots.ts";
import { untilFound } from "./followers.ts";
import { Informer } from "./informer.ts";
import type { KubeClient } from "./kube-client.ts";

/** Longer than a watch lags behind. */
const lagMilliseconds = 200;
/** A watch that has failed is usually back after this time. */
const reconnectMilliseconds = 5_000;
/** Requests with unknown keys that wait at the same time, of all clients and of one. */
const mostWaiting = { all: 100, ofClient: 25 };

/** The keys of clients. A revoked value of a key is refused as soon as the watch reports it. */
export class ApiKeys {
  readonly informer: Informer<ApiKey>;
  readonly #clock: Clock;
  readonly #waiting = new Slots(mostWaiting.all);
  readonly #waitingOf = new Slots(mostWaiting.ofClient);
  /** By key, the functions that end what is open if the key is no longer valid. */
  readonly #open = new Map<string, Set<() => void>>();

  constructor(client: KubeClient, options: { log: Log; namespaces?: readonly string[] | undefined }) {
    this.#clock = client.clock;
    this.informer = new Informer({ resource: client.of(apiKeyKind), ...options });
    this.informer.store.subscribe(({ object: { metadata } }) => {
      for (const check of this.#open.get(`${metadata.namespace}/${metadata.name}`) ?? []) check();
    });
  }

  /** The key of a value; undefined if the value was revoked or has expired. */
  accepted({ key, digest }: KeyValue): ApiKey | undefined {
    const found = this.informer.store.get(key);
    return found !== undefined && this.accepts(found, digest) ? found : undefined;
  }

  accepts({ metadata: { deletionTimestamp }, spec }: ApiKey, digest: string): boolean {
    return deletionTimestamp === undefined && acceptsDigest(spec, digest, this.#clock.now());
  }

  /**
   * A client may use a key before the watch has reported it. Only some requests wait, because strangers can send them too.
   * @param client which others cannot be kept from waiting by: an address, or a namespace
   */
  async appearing<T>(find: () => T | undefined, client: string): Promise<T | undefined> {
    const release = takeAll([this.#waiting, "all"], [this.#waitingOf, client]);
    if (release === undefined) return undefined;
    const milliseconds = this.informer.isInterrupted ? reconnectMilliseconds : lagMilliseconds;
    return untilFound([this.informer.store], find, { clock: this.#clock, milliseconds }).finally(release);
  }

  /**
   * Calls `end` as soon as a value of a key is revoked or expires, immediately if that has happened since it was accepted.
   * @returns a function for the end of what the value has started
   */
  endWhenRevoked(value: KeyValue, end: () => void): () => void {
    let cancel = (): void => undefined;
    const check = (): void => {
      cancel();
      const accepted = this.accepted(value);
      if (accepted === undefined) {
        end();
        return;
      }
      const left = expiryOf(accepted.spec, value.digest) - this.#clock.now().getTime();
      if (left < Infinity) cancel = this.#clock.schedule(left, check);
    };
    const all = this.#open.get(value.key) ?? new Set();
    this.#open.set(value.key, all.add(check));
    check();
    return () => {
      cancel();
      all.delete(check);
      if (all.size === 0 && this.#open.get(value.key) === all) this.#open.delete(value.key);
    };
  }
}
