import { createHash } from "node:crypto";
import { RametError, unlessCode } from "../base/errors.ts";
import type { KubeClient } from "./kube-client.ts";
import { microTime } from "./lease.ts";
import { silentLog, type Log } from "../base/log.ts";
import type { KubeObject } from "./object.ts";
import { coreResources } from "./resource-ref.ts";

export interface EventRecorderOptions {
  client: KubeClient;
  /** Such as `ramet.dev/sandbox-controller`. */
  reportingController: string;
  /** Such as the name of the Pod that runs the controller. */
  reportingInstance: string;
  log?: Log;
}

export interface Transition {
  type: "Normal" | "Warning";
  /** The cause: one CamelCase word. */
  reason: string;
  /** The action of the controller: one CamelCase word. */
  action: string;
  /** One sentence for people. Truncated to 1 kB, the limit of the API. */
  note: string;
}

/**
 * Writes Kubernetes Events for transitions (events.k8s.io/v1). A repeated transition is counted in a series, which is written at
 * most once a minute. An Event that cannot be written is logged and dropped: no decision depends on Events.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #log: Log;
  readonly #recent = new Map<string, Recent>();
  #pending: Promise<void> = Promise.resolve();

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLog;
  }

  /** Returns immediately. Events are written one after another. */
  record(regarding: KubeObject, transition: Transition): void {
    this.#pending = this.#pending
      .then(() => this.#write(regarding, transition))
      .catch((error: unknown) => {
        const { message } = RametError.from(error);
        this.#log.warn({ reason: transition.reason, error: message }, "failed to write an Event");
      });
  }

  /** Resolves when all recorded Events are written or dropped, at the latest after two seconds. */
  async flush(): Promise<void> {
    const over = Promise.withResolvers<undefined>();
    const cancel = this.#options.client.clock.schedule(flushMilliseconds, () => {
      over.resolve(undefined);
    });
    await Promise.race([this.#pending, over.promise]);
    cancel();
  }

  async #write(regarding: KubeObject, transition: Transition): Promise<void> {
    const { clock } = this.#options.client;
    this.#forgetOld();
    const id = identify(regarding, transition);
    const known = this.#recent.get(id);
    if (known === undefined) {
      const name = `${regarding.metadata.name}.${id}`;
      const now = clock.monotonicMilliseconds();
      this.#recent.set(id, { name, count: 1, seenAt: now, writtenAt: now });
      await this.#create(name, regarding, transition);
      return;
    }
    known.count++;
    known.seenAt = clock.monotonicMilliseconds();
    if (known.seenAt - known.writtenAt < seriesWriteMilliseconds) return;
    known.writtenAt = known.seenAt;
    const series = { count: known.count, lastObservedTime: microTime(clock.now()) };
    await this.#events().mergePatch({ namespace: namespaceOf(regarding), name: known.name }, { series });
  }

  async #create(name: string, regarding: KubeObject, { type, reason, action, note }: Transition): Promise<void> {
    const { client, reportingController, reportingInstance } = this.#options;
    const { namespace, name: objectName, uid, resourceVersion } = regarding.metadata;
    const { apiVersion, kind } = regarding;
    const event = {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { namespace: namespaceOf(regarding), name },
      eventTime: microTime(client.clock.now()),
      type,
      reason,
      action,
      note: note.slice(0, 1024),
      regarding: { apiVersion, kind, namespace, name: objectName, uid, resourceVersion },
      reportingController,
      reportingInstance,
    };
    // An earlier run of this controller may have recorded the same Event.
    await this.#events().create(event).catch(unlessCode("AlreadyExists"));
  }

  #events() {
    return this.#options.client.resource(coreResources.events);
  }

  #forgetOld(): void {
    const now = this.#options.client.clock.monotonicMilliseconds();
    for (const [id, { seenAt }] of this.#recent) {
      if (now - seenAt > seriesMilliseconds) this.#recent.delete(id);
    }
  }
}

interface Recent {
  name: string;
  count: number;
  seenAt: number;
  writtenAt: number;
}

/** Limits how long a process that exits waits for an unreachable server. */
const flushMilliseconds = 2_000;
const seriesMilliseconds = 600_000;
const seriesWriteMilliseconds = 60_000;

/** For an object without a namespace, the API server accepts only `default`. */
function namespaceOf(regarding: KubeObject): string {
  return regarding.metadata.namespace ?? "default";
}

/** Deterministic, so that an event is not written twice after a restart. */
function identify(regarding: KubeObject, { type, reason, action, note }: Transition): string {
  const text = JSON.stringify([regarding.metadata.uid, type, reason, action, note]);
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
