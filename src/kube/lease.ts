import * as z from "zod";
import { RametError } from "../base/errors.ts";
import { delay, type Clock } from "../base/clock.ts";
import { within } from "../base/within.ts";
import type { KubeClient } from "./kube-client.ts";
import { silentLog, type Log } from "../base/log.ts";
import { ObjectMeta, type KubeManifest } from "./object.ts";
import type { ResourceClient } from "./resource-client.ts";
import { coreResources } from "./resource-ref.ts";

export interface LeaseOptions {
  client: KubeClient;
  namespace: string;
  name: string;
  /** Unique among all candidates, including earlier runs of this program. */
  identity: string;
  /** How long others wait for a renewal before they take the lease. @default 8 */
  leaseSeconds?: number;
  /** How long the holder may fail to renew before it stops; shorter than the lease by the time that its work needs to end. @default 6 */
  renewDeadlineSeconds?: number;
  /** The pause between two attempts. @default 1 */
  retrySeconds?: number;
  /** Called when the lease is lost, before the work has ended. The process should end soon. */
  onLost?: (error: RametError) => void;
  log?: Log;
}

/**
 * Waits until this candidate holds the lease, runs `lead`, renews the lease until `lead` returns, and then releases it, so that
 * the next candidate does not have to wait. If `signal` is aborted or the lease is lost, the signal of `lead` is aborted.
 *
 * Each candidate measures time with its own monotonic clock, from when it saw the lease change: clocks need not agree. With the
 * defaults, a killed holder is replaced within 8.6 seconds, and an outage of the API server of 4.5 seconds ends no leadership.
 *
 * @throws RametError `Unavailable` if the lease was lost: another process may lead, so this one must stop
 */
export async function runWhileLeading(
  options: LeaseOptions,
  lead: (signal: AbortSignal) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const lease = new HeldLease(options);
  if (!(await lease.acquire(signal))) return;
  const losing = new AbortController();
  const ended = new AbortController();
  const renewing = lease.keep(ended.signal).catch((thrown: unknown) => {
    const error = RametError.from(thrown);
    options.onLost?.(error);
    losing.abort(error);
    return error;
  });
  try {
    await lead(AbortSignal.any([signal, losing.signal]));
  } finally {
    ended.abort();
    const lost = await renewing;
    if (lost === undefined) await lease.release();
    // The lost lease ended the work, so it replaces any error of the work.
    // eslint-disable-next-line no-unsafe-finally
    else throw lost;
  }
}

/** A Lease in the API. */
export const LeaseObject = z.looseObject({
  apiVersion: z.string().optional(),
  kind: z.string().optional(),
  metadata: ObjectMeta,
  spec: z.looseObject({
    holderIdentity: z.string().nullish(),
    leaseDurationSeconds: z.number().nullish(),
    leaseTransitions: z.number().nullish(),
    acquireTime: z.string().nullish(),
    renewTime: z.string().nullish(),
  }),
});
export type LeaseObject = z.infer<typeof LeaseObject>;

/** Longer than the deadline of renewals and the time in which a process stops leading: never do two of them lead. */
const defaultLeaseSeconds = 8;
/** Limits how long a process that exits waits for an unresponsive server. */
const releaseMilliseconds = 5_000;
/** Leaves time for another connection if a request gets no response. */
const attemptMilliseconds = 2_000;
/** The pause after a renewal that failed. */
const renewAgainMilliseconds = 200;

class HeldLease {
  readonly #options: LeaseOptions;
  readonly #clock: Clock;
  readonly #leases: ResourceClient<LeaseObject>;
  readonly #log: Log;
  /** The lease as last seen, and when this version was first seen. */
  #seen: { lease: LeaseObject; since: number } | undefined;
  /** When the last successful renewal started. */
  #renewedAt = 0;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#clock = options.client.clock;
    this.#leases = options.client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
    this.#log = options.log ?? silentLog;
  }

  /** Retries until it succeeds (true) or `signal` is aborted (false). */
  async acquire(signal: AbortSignal): Promise<boolean> {
    const ended = (): boolean => signal.aborted;
    while (!ended()) {
      try {
        if (await this.#attempt(signal, (limited) => this.#tryAcquire(limited))) {
          this.#log.info({ lease: this.#options.name, identity: this.#options.identity }, "leading");
          return true;
        }
      } catch (error) {
        const { message } = RametError.from(error);
        if (!ended()) this.#log.warn({ lease: this.#options.name, error: message }, "failed to acquire the lease");
      }
      await delay(this.#clock, this.#untilAttempt(), signal).catch(() => undefined);
    }
    return false;
  }

  /** Renews until `signal` is aborted. @throws RametError `Unavailable` if the lease is lost */
  async keep(signal: AbortSignal): Promise<undefined> {
    for (;;) {
      try {
        await delay(this.#clock, this.#retryMilliseconds(), signal);
      } catch {
        return undefined;
      }
      await this.#renewBeforeDeadline(signal);
    }
  }

  async release(): Promise<void> {
    const deadline = { clock: this.#clock, milliseconds: releaseMilliseconds, what: "Releasing the lease" };
    try {
      await within(deadline, (signal) => this.#giveUp(signal));
    } catch (error) {
      // The next candidate then waits until the lease expires.
      this.#log.warn({ error: RametError.from(error).message }, "failed to release the lease");
    }
  }

  async #giveUp(signal: AbortSignal): Promise<void> {
    const { namespace, name, identity } = this.#options;
    // The response to the last renewal may have been lost, so the lease as last seen may be outdated.
    const lease = await this.#leases.get({ namespace, name }, { signal });
    if (lease.spec.holderIdentity !== identity) return;
    const free = { holderIdentity: "", leaseDurationSeconds: 1, renewTime: microTime(this.#clock.now()) };
    await this.#leases.update(this.#manifest(lease, free), { signal });
  }

  async #tryAcquire(signal: AbortSignal): Promise<boolean> {
    const { namespace, name, identity } = this.#options;
    const started = this.#clock.monotonicMilliseconds();
    const found = await this.#leases.find({ namespace, name }, { signal });
    if (found === undefined) return this.#write(started, () => this.#leases.create(this.#manifest(), { signal }));
    this.#see(found);
    const holder = found.spec.holderIdentity ?? "";
    if (holder !== "" && holder !== identity && !this.#hasRunOut()) return false;
    const transitions = (found.spec.leaseTransitions ?? 0) + (holder === identity ? 0 : 1);
    const manifest = this.#manifest(found, {
      leaseTransitions: transitions,
      acquireTime: microTime(this.#clock.now()),
    });
    return this.#write(started, () => this.#leases.update(manifest, { signal }));
  }

  /** Retries until the deadline. */
  async #renewBeforeDeadline(signal: AbortSignal): Promise<void> {
    const deadline = this.#renewedAt + (this.#options.renewDeadlineSeconds ?? 6) * 1000;
    const late = new AbortController();
    const left = deadline - this.#clock.monotonicMilliseconds();
    const cancel = this.#clock.schedule(Math.max(0, left), () => {
      late.abort();
    });
    const either = AbortSignal.any([signal, late.signal]);
    try {
      for (;;) {
        const renewed = this.#attempt(either, (limited) => this.#renew(limited));
        const outcome = await renewed.catch((error: unknown) => RametError.from(error));
        if (outcome === true || signal.aborted) return;
        if (outcome === false) throw this.#lost(`${this.#holder()} holds it now`);
        this.#log.warn({ lease: this.#options.name, error: outcome.message }, "failed to renew the lease");
        if (this.#clock.monotonicMilliseconds() >= deadline) throw this.#lost(outcome.message);
        await delay(this.#clock, renewAgainMilliseconds, either).catch(() => undefined);
      }
    } finally {
      cancel();
    }
  }

  /** Renews the lease. Resolves to false if another candidate holds it. */
  async #renew(signal: AbortSignal): Promise<boolean> {
    const { namespace, name, identity } = this.#options;
    const started = this.#clock.monotonicMilliseconds();
    const known = this.#seen?.lease;
    if (known?.spec.holderIdentity === identity) {
      if (await this.#write(started, () => this.#leases.update(this.#manifest(known), { signal }))) return true;
    }
    // Another client wrote the lease, or a response was lost: read the holder.
    const found = await this.#leases.get({ namespace, name }, { signal });
    this.#see(found);
    if (found.spec.holderIdentity !== identity) return false;
    return this.#write(started, () => this.#leases.update(this.#manifest(found), { signal }));
  }

  #attempt(signal: AbortSignal, work: (signal: AbortSignal) => Promise<boolean>): Promise<boolean> {
    return within({ clock: this.#clock, milliseconds: attemptMilliseconds, what: "The request", signal }, work);
  }

  /** Resolves to false if another candidate was faster. */
  async #write(started: number, write: () => Promise<LeaseObject>): Promise<boolean> {
    try {
      this.#see(await write());
      this.#renewedAt = started;
      return true;
    } catch (error) {
      const { code } = RametError.from(error);
      if (code === "Conflict" || code === "AlreadyExists" || code === "NotFound") return false;
      throw error;
    }
  }

  #see(lease: LeaseObject): void {
    if (this.#seen?.lease.metadata.resourceVersion === lease.metadata.resourceVersion) return;
    this.#seen = { lease, since: this.#clock.monotonicMilliseconds() };
  }

  #hasRunOut(): boolean {
    return this.#seen !== undefined && this.#leftMilliseconds() <= 0;
  }

  /** Until the lease of another candidate runs out, unless it is renewed. */
  #leftMilliseconds(): number {
    if (this.#seen === undefined) return 0;
    const seconds = this.#seen.lease.spec.leaseDurationSeconds ?? defaultLeaseSeconds;
    return this.#seen.since + seconds * 1000 - this.#clock.monotonicMilliseconds();
  }

  /** A candidate asks twice as often as a holder renews, so that it knows when the lease runs out. */
  #untilAttempt(): number {
    const left = this.#leftMilliseconds();
    const retry = this.#retryMilliseconds() / 2;
    return left > 0 ? Math.min(left, retry) : retry;
  }

  #manifest(known?: LeaseObject, more: object = {}): KubeManifest {
    const { namespace, name, identity, leaseSeconds } = this.#options;
    const now = microTime(this.#clock.now());
    return {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: known?.metadata ?? { namespace, name },
      spec: {
        acquireTime: now,
        leaseTransitions: 0,
        ...known?.spec,
        holderIdentity: identity,
        leaseDurationSeconds: leaseSeconds ?? defaultLeaseSeconds,
        renewTime: now,
        ...more,
      },
    };
  }

  #retryMilliseconds(): number {
    // Adds up to a fifth, so that candidates do not retry simultaneously.
    return (this.#options.retrySeconds ?? 1) * 1000 * (1 + 0.2 * this.#options.client.random());
  }

  #holder(): string {
    const holder = this.#seen?.lease.spec.holderIdentity ?? "";
    return holder === "" ? "nobody" : holder;
  }

  #lost(why: string): RametError {
    const { namespace, name } = this.#options;
    const hint = "Restart this process; it then waits for the lease";
    return new RametError("Unavailable", `The lease ${namespace}/${name} was lost: ${why}`, { retryable: true, hint });
  }
}

/** `metav1.MicroTime`: the API server rejects a time with milliseconds only (kubernetes-client/javascript#828). */
export function microTime(date: Date): string {
  return date.toISOString().replace("Z", "000Z");
}
