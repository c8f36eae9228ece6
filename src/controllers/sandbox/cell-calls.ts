import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { initRequestDigest } from "../../api/names/init-request.ts";
import { isRollbackPending, rollbackRequest } from "../../api/names/rollback-request.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { isStarting } from "../../api/state/sandbox.ts";
import type { Clock } from "../../base/clock.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf } from "../../kube/object.ts";
import { Attempts, SlowStart } from "../cluster/attempts.ts";
import { type CallOutcomes, type CellCallStates, isAdoptionPending, type SandboxState } from "./state.ts";

export type CellCallKind = keyof CallOutcomes;

export interface CellCallsOptions {
  clock: Clock;
  random: () => number;
  pods: Pick<Informer<Pod>, "store">;
  /** How long a sandbox waits for an image that cannot be had. @default 180000 */
  pullTimeoutMilliseconds?: number | undefined;
  /** Requeues the sandbox with this key when a call has ended. */
  enqueue: (key: string) => void;
}

/**
 * The calls to the cells of sandboxes, which run outside reconciles, and how long each sandbox has waited for its Pod. A sandbox has
 * one Pod at a time. When it gets another one, or the Pod or the sandbox is gone, everything about the earlier one is forgotten: its
 * running calls are aborted, and unreachable cells are not called again.
 */
export class CellCalls {
  readonly #enqueue: (key: string) => void;
  readonly #attempts: Attempts<CallOutcomes[CellCallKind]>;
  readonly #starts: SlowStart;
  readonly #pulls: SlowStart;
  /** By the key of the sandbox, which is also that of its Pod. */
  readonly #known = new Map<string, Known>();
  readonly #unsubscribe: () => void;

  constructor({ clock, random, pods, pullTimeoutMilliseconds = 180_000, enqueue }: CellCallsOptions) {
    this.#enqueue = enqueue;
    this.#attempts = new Attempts({ clock, random });
    this.#starts = new SlowStart(clock);
    this.#pulls = new SlowStart(clock, pullTimeoutMilliseconds);
    this.#unsubscribe = pods.store.subscribe(({ type, object: { metadata } }) => {
      const known = this.#known.get(keyOf(metadata));
      if (type === "deleted" && known?.podUid === metadata.uid) this.#setPod(known, undefined);
    });
  }

  /** The number of sandboxes about which something is known. */
  get size(): number {
    return this.#known.size;
  }

  of(sandbox: Sandbox, pod: Pod | undefined): CellCallStates {
    const known = this.#knownOf(sandbox);
    this.#setPod(known, pod?.metadata.uid);
    const get = <Kind extends CellCallKind>(kind: Kind) => {
      if (known.requests.get(kind) !== requestOf(sandbox, kind)) return undefined;
      return this.#attempts.get(idOf(known, kind)) as CellCallStates[Kind];
    };
    return {
      start: get("start"),
      adoption: get("adoption"),
      restoreInPlace: get("restoreInPlace"),
      egressCall: get("egressCall"),
      credentialsCall: get("credentialsCall"),
      load: get("load"),
      end: get("end"),
      activity: get("activity"),
    };
  }

  /**
   * Starts a call, unless one for the same request is known. Of the kinds whose last call counts, one that has ended is made again.
   * @param call its signal is aborted when the Pod is gone
   */
  start<Kind extends CellCallKind>(
    sandbox: Sandbox,
    pod: Pod,
    kind: Kind,
    call: (signal: AbortSignal) => Promise<CallOutcomes[Kind]>,
  ): void {
    const known = this.#knownOf(sandbox);
    this.#setPod(known, pod.metadata.uid);
    const id = idOf(known, kind);
    const request = requestOf(sandbox, kind);
    const isRepeated = renewed.has(kind) && this.#attempts.get(id)?.state !== "running";
    if (isRepeated || known.requests.get(kind) !== request) this.#attempts.forget(id);
    known.requests.set(kind, request);
    this.#attempts.start(id, call, () => {
      this.#enqueue(keyOf(sandbox.metadata));
    });
  }

  /** Drops the outcome of a call. A running one continues, and its end is ignored. */
  drop({ metadata }: Pod, kind: CellCallKind): void {
    const known = this.#known.get(keyOf(metadata));
    if (known?.podUid !== metadata.uid) return;
    known.requests.delete(kind);
    this.#attempts.forget(idOf(known, kind));
  }

  /**
   * Drops the calls that are answered or whose request was withdrawn, and the waits that have ended.
   * @param shown the phase in the cache: until it shows the outcome of a start, the call is the only record of it
   */
  settle(state: SandboxState, shown: SandboxStatus["phase"] | undefined): void {
    const { sandbox, pod } = state;
    const isSettled = !isStarting({ status: { phase: shown } }) || sandbox.metadata.deletionTimestamp !== undefined;
    if (pod !== undefined) for (const kind of answeredCalls(state, isSettled)) this.drop(pod, kind);
    if (!isSettled) return;
    this.#starts.forget(sandbox.metadata.uid);
    this.#pulls.forget(sandbox.metadata.uid);
    const key = keyOf(sandbox.metadata);
    if (this.#known.get(key)?.requests.size === 0) this.#known.delete(key);
  }

  /** Milliseconds until the start of a sandbox counts as slow; 0: it does already. */
  slowInMilliseconds(sandbox: Sandbox): number {
    return this.#starts.millisecondsLeft(this.#knownOf(sandbox).uid);
  }

  /** Milliseconds until a sandbox has waited too long for its image; undefined: the image can be had, and the time ends. */
  pullTimeoutInMilliseconds(sandbox: Sandbox, isStuck: boolean): number | undefined {
    const { uid } = this.#knownOf(sandbox);
    if (isStuck) return this.#pulls.millisecondsLeft(uid);
    this.#pulls.forget(uid);
    return undefined;
  }

  /** Forgets a sandbox that does not exist any more. */
  forget(key: string): void {
    const known = this.#known.get(key);
    if (known === undefined) return;
    this.#setPod(known, undefined);
    this.#starts.forget(known.uid);
    this.#pulls.forget(known.uid);
    this.#known.delete(key);
  }

  /** Stops repeating calls. Operations in cells continue, and a later call joins them. */
  close(): void {
    this.#unsubscribe();
    this.#attempts.close();
  }

  #knownOf({ metadata }: Sandbox): Known {
    const key = keyOf(metadata);
    const before = this.#known.get(key);
    if (before?.uid === metadata.uid) return before;
    this.forget(key);
    const known = { uid: metadata.uid, podUid: undefined, requests: new Map<CellCallKind, string>() };
    this.#known.set(key, known);
    return known;
  }

  #setPod(known: Known, podUid: string | undefined): void {
    if (known.podUid === podUid) return;
    for (const kind of known.requests.keys()) void this.#attempts.end(idOf(known, kind));
    known.requests.clear();
    known.podUid = podUid;
  }
}

/** The calls of which an earlier outcome says nothing about the next one. */
const renewed = new Set<CellCallKind>(["egressCall", "credentialsCall"]);

interface Known {
  uid: string;
  podUid: string | undefined;
  requests: Map<CellCallKind, string>;
}

function idOf({ podUid }: Known, kind: CellCallKind): string {
  return `${podUid}/${kind}`;
}

/** Another request of these kinds needs another call. */
function requestOf(sandbox: Sandbox, kind: CellCallKind): string {
  if (kind === "adoption") return initRequestDigest(sandbox) ?? "";
  if (kind === "restoreInPlace") return rollbackRequest(sandbox)?.digest ?? "";
  if (kind === "activity") return sandbox.status?.ramet?.automatic?.at ?? "";
  return "";
}

function answeredCalls(state: SandboxState, isSettled: boolean): CellCallKind[] {
  const { sandbox } = state;
  const isAdopted = !isAdoptionPending(sandbox) || sandbox.status?.phase !== "Running";
  return [
    ...(isRollbackPending(sandbox) ? [] : ["restoreInPlace" as const]),
    ...(isAdopted ? ["adoption" as const] : []),
    ...(isEgressRecorded(state) ? ["egressCall" as const] : []),
    ...(isSettled ? ["start" as const] : []),
    ...(state.activity === undefined ? ["activity" as const] : []),
  ];
}

/** Whether the status has the outcome of the last call. Until then, the call says which policy the cell has. */
function isEgressRecorded({ sandbox: { status }, egress: { digest }, egressCall: call }: SandboxState): boolean {
  if (call?.state !== "done" || call.value.error !== undefined) return false;
  return call.value.digest === digest && status?.ramet?.egress === digest;
}
