import { systemNamespace, controllersLease } from "../../api/names/system-names.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { LeaseObject } from "../../kube/lease.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import {
  type CommonFacts,
  EventFacts,
  NodeFacts,
  PodFacts,
  type Read,
  type SandboxFacts,
  valueOf,
  lastSeen,
} from "./facts.ts";

/** Reads what explanations need, with the user's own rights. A fact that cannot be read is unknown, and never an error. */
export class FactReader {
  readonly #io: Io;
  readonly #cluster: Cluster;
  /** When the last read ends, on the monotonic clock. */
  readonly #endsAt: number;

  constructor(io: Io, cluster: Cluster) {
    this.#io = io;
    this.#cluster = cluster;
    this.#endsAt = io.clock.monotonicMilliseconds() + allReadsMilliseconds;
  }

  async common(): Promise<CommonFacts> {
    return { now: this.#io.clock.now(), controllers: await this.#lease(systemNamespace, controllersLease) };
  }

  /** Two rounds of concurrent reads: what the names are known of, then the Pod's node. */
  async sandbox(sandbox: Sandbox, common: CommonFacts): Promise<SandboxFacts> {
    const { client } = this.#cluster;
    const { name, namespace } = sandbox.metadata;
    const [pod, events] = await Promise.all([
      this.read("pods", (signal) =>
        client.resource(coreResources.pods, (value) => PodFacts.parse(value)).find({ namespace, name }, { signal }),
      ),
      this.events(namespace, name),
    ]);
    const nodeName = valueOf(pod)?.spec.nodeName;
    if (nodeName == null) return { ...common, sandbox, pod, events, node: absent, nodeLease: absent };
    const [node, nodeLease] = await Promise.all([
      this.read("nodes", (signal) =>
        client.resource(coreResources.nodes, (value) => NodeFacts.parse(value)).find({ name: nodeName }, { signal }),
      ),
      this.#lease("kube-node-lease", nodeName),
    ]);
    return { ...common, sandbox, pod, events, node, nodeLease };
  }

  /** The Events of all objects of a name, the latest first. */
  events(namespace: string, name: string): Promise<Read<EventFacts[]>> {
    return this.read("events", async (signal) => {
      const events = this.#cluster.client.resource(coreResources.events, (value) => EventFacts.parse(value));
      const { items } = await events.list({ namespace, fieldSelector: `regarding.name=${name}`, signal });
      return items.sort(latestFirst);
    });
  }

  /** Reads one thing within its time. @param what its plural, for the reason why it is unknown */
  async read<T>(what: string, call: (signal: AbortSignal) => Promise<T | undefined>): Promise<Read<T>> {
    const { clock, signal } = this.#io;
    const left = Math.max(1, this.#endsAt - clock.monotonicMilliseconds());
    const deadline = { clock, milliseconds: Math.min(readMilliseconds, left), what: `Reading ${what}`, signal };
    try {
      return { value: await within(deadline, call) };
    } catch (thrown) {
      signal.throwIfAborted();
      const error = RametError.from(thrown);
      return { unknown: error.code === "Forbidden" ? `you are not allowed to read ${what}` : error.message };
    }
  }

  #lease(namespace: string, name: string): Promise<Read<LeaseObject>> {
    return this.read(`leases in ${namespace}`, (signal) =>
      this.#cluster.client
        .resource(coreResources.leases, (value) => LeaseObject.parse(value))
        .find({ namespace, name }, { signal }),
    );
  }
}

const absent = { value: undefined };

const readMilliseconds = 800;

/** Together with the start of the command, this leaves an answer within 2 s, however long the chain of causes is. */
const allReadsMilliseconds = 1_600;

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
