import type { KubeClient } from "../../kube/kube-client.ts";
import { LeaseObject } from "../../kube/lease.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ListOptions, ResourceClient } from "../../kube/resource-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { see } from "../../preflight/finding.ts";
import type { Io } from "../io.ts";
import { EventFacts, lastSeen, type Read } from "./facts.ts";

/**
 * Reads what the explanation of one object needs, with the user's own rights. A fact that cannot be read is unknown, and never an
 * error.
 */
export class FactReader {
  /** Why facts are not known. */
  readonly unknown = new Set<string>();
  readonly client: KubeClient;
  readonly #io: Io;
  /** When the last read ends, on the monotonic clock. */
  readonly #endsAt: number;

  constructor(io: Io, client: KubeClient) {
    this.#io = io;
    this.client = client;
    this.#endsAt = io.clock.monotonicMilliseconds() + allReadsMilliseconds;
  }

  /** The object with a name; absent if nothing names one. */
  find<T extends KubeObject>(
    resource: ResourceClient<T>,
    { namespace, name }: { namespace?: string | undefined; name?: string | null | undefined },
  ): Promise<Read<T>> {
    if (name == null) return Promise.resolve(absent);
    return this.read(resource.ref.plural, (signal) => resource.find({ namespace, name }, { signal }));
  }

  list<T extends KubeObject>(resource: ResourceClient<T>, options: ListOptions = {}): Promise<Read<T[]>> {
    return this.read(resource.ref.plural, async (signal) => (await resource.list({ ...options, signal })).items);
  }

  /** The Events of all objects of a name, or of one of a kind, the latest first. */
  async events(namespace: string, name: string, kind?: string): Promise<Read<EventFacts[]>> {
    const events = this.client.resource(coreResources.events, (value) => EventFacts.parse(value));
    const read = await this.list(events, { namespace, fieldSelector: `regarding.name=${name}` });
    if ("unknown" in read) return read;
    const of = read.value?.filter(({ regarding }) => kind === undefined || regarding?.kind === kind);
    return { value: of?.sort(latestFirst) };
  }

  /** @param namespace where the Lease is. Default: whichever namespace its program runs in */
  lease(name: string, namespace?: string): Promise<Read<LeaseObject>> {
    const leases = this.client.resource(coreResources.leases, (value) => LeaseObject.parse(value));
    return this.read(`leases ${namespace === undefined ? "of all namespaces" : `in ${namespace}`}`, async (signal) => {
      if (namespace !== undefined) return leases.find({ namespace, name }, { signal });
      return (await leases.list({ fieldSelector: `metadata.name=${name}`, signal })).items[0];
    });
  }

  /** Reads one thing within its time. @param what its plural, for the reason why it is unknown */
  async read<T>(what: string, call: (signal: AbortSignal) => Promise<T | undefined>): Promise<Read<T>> {
    const { clock, signal } = this.#io;
    const left = this.#endsAt - clock.monotonicMilliseconds();
    const read: Read<T> =
      left > 0
        ? await see({ what, clock, milliseconds: Math.min(readMilliseconds, left), signal }, call)
        : { unknown: `${what} were not read: the reads before took ${allReadsMilliseconds / 1000} s` };
    if ("unknown" in read) this.unknown.add(read.unknown);
    return read;
  }
}

/** A fact about something that nothing names. */
export const absent = { value: undefined };

/** A distant or busy API server answers within this time. A read that was dropped leaves an explanation without its cause. */
const readMilliseconds = 2_500;

/** The longest wait for an answer when the API server does not respond, however long the chain of causes is. */
const allReadsMilliseconds = 5_000;

/**
 * Compares two Events of one cluster; the one that was observed later comes first.
 *
 * Most components record whole seconds, and a controller that retries immediately records two Events in one second. Those are ordered by
 * the write that the API server made later. Its resource versions can be compared as numbers within one type of object (KEP-5504).
 */
export function latestFirst(a: EventFacts, b: EventFacts): number {
  return wholeSeconds(b) - wholeSeconds(a) || compareVersions(b.metadata.resourceVersion, a.metadata.resourceVersion);
}

/** The second in which the Event was last observed, since 1970. 0 if its time cannot be read. */
function wholeSeconds(event: EventFacts): number {
  const milliseconds = Date.parse(lastSeen(event));
  return Number.isNaN(milliseconds) ? 0 : Math.floor(milliseconds / 1000);
}

/** Compares decimal numbers of any size without leading zeros. Other texts have no order that means anything, but always the same one. */
function compareVersions(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
