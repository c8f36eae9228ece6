import type { DisruptionCause, Sandbox } from "../../api/kinds/sandbox.ts";
import { disruptionPolicyOf } from "../../api/pod/disruption.ts";
import { volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { type Leaving, leavingNode } from "../../api/state/node.ts";
import {
  amountsOf,
  type NodeTerm,
  type Placement,
  placementOf,
  requestsOf,
  type TargetNode,
  tolerationsOf,
  without,
} from "../../api/state/target.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyOf } from "../../kube/object.ts";
import { claimsIn, volumesIn } from "../../kube/volumes/volumes.ts";
import type { NodeCpus } from "../nodes/node-cpus.ts";
import type { Node } from "../nodes/nodes.ts";
import { isSavedFrom, isUnderWay } from "./pause-checkpoint.ts";
import { type Candidate, type Moving, type Moves, planMoves, type Turn } from "./plan-moves.ts";
import { isEnded, unscheduledWords } from "./pod-facts.ts";
import type { Informers } from "./resources.ts";

interface DeparturesOptions {
  termsOfVolumes: (pod: Pod) => Promise<Placement["terms"]>;
  nodes: Pick<Informer<Node>, "store">;
  informers: Pick<Informers, "pods" | "sandboxes">;
  nodeCpus: Pick<NodeCpus, "covers">;
  clock: Clock;
  /** How many sandboxes of a node move at the same time. 0: they stay until their Pods are ended. @default 4 */
  atOnce?: number | undefined;
}

/** Why a sandbox leaves its node, and whether it is its turn. Without a cause, its Pod was ended, and it resumes. */
export type Departure = Turn & { cause?: DisruptionCause; mark?: string };

const defaultAtOnce = 4;
/** A move that takes longer, or that has not begun after its turn, keeps no other one waiting. */
const longestMoveMilliseconds = 300_000;
const beginMilliseconds = 30_000;
/** After a move, and after a capture that has failed. */
const againMilliseconds = 60_000;
/** A plan also depends on the time. */
const validMilliseconds = 5_000;
/** Changes of this time are announced together. */
const announceMilliseconds = 200;

/** Follows which sandboxes leave their nodes, and whose turn it is. */
export class Departures {
  readonly #options: DeparturesOptions;
  readonly #podsOn: (node: string) => Pod[];
  readonly #moving: (value: "moving") => Sandbox[];
  /** By the UID of a Pod: the terms of its volumes, which do not change. */
  readonly #volumes = new Map<string, Placement["terms"]>();
  /** By the UID of a Pod: since when it is its turn. */
  readonly #since = new Map<string, number>();
  readonly #listeners: ((keys: readonly string[]) => void)[] = [];
  #turns: ReadonlyMap<string, Departure> | undefined;
  #plannedAt = 0;
  #announced: ReadonlyMap<string, Departure> = new Map();
  #cancel: (() => void) | undefined;

  constructor(options: DeparturesOptions) {
    this.#options = options;
    const { nodes, informers } = options;
    this.#podsOn = informers.pods.store.index(({ spec }) => (spec.nodeName === undefined ? [] : [spec.nodeName]));
    this.#moving = informers.sandboxes.store.index(({ status }) =>
      isUnderWay(status?.ramet?.disruption) ? ["moving"] : [],
    );
    for (const store of [nodes.store, informers.pods.store, informers.sandboxes.store])
      store.subscribe(() => {
        this.#changed();
      });
    informers.pods.store.subscribe(({ type, object: { metadata } }) => {
      if (type === "deleted") this.#volumes.delete(metadata.uid);
    });
  }

  /** Calls `listener` with the keys of sandboxes whose departure has changed. */
  onChange(listener: (keys: readonly string[]) => void): void {
    this.#listeners.push(listener);
  }

  /** Calls `listener` with the Pods of a node that is about to end them, or no longer. */
  onNode(listener: (pods: readonly Pod[]) => void): void {
    this.#options.nodes.store.subscribe((change) => {
      const { object } = change;
      const before = change.type === "updated" ? leavingNode(change.previous) : { leaving: false };
      if (before.leaving !== leavingNode(object).leaving) listener(this.#podsOn(object.metadata.name));
    });
  }

  close(): void {
    this.#cancel?.();
    this.#listeners.length = 0;
  }

  /** Whether the node of the Pod is about to end it. */
  leaves(pod: Pod | undefined): Leaving {
    const node = pod?.spec.nodeName === undefined ? undefined : this.#options.nodes.store.get(pod.spec.nodeName);
    const isFollowed = node !== undefined && pod !== undefined && this.#options.atOnce !== 0;
    return isFollowed ? leavingNode(node, tolerationsOf(pod)) : { leaving: false };
  }

  /** @returns undefined: it does not leave its node, and does not resume after that */
  async of({ metadata }: Pick<Sandbox, "metadata">, pod: Pod | undefined): Promise<Departure | undefined> {
    const key = keyOf(metadata);
    if (pod !== undefined && this.#termsOf(pod) === undefined && this.leaves(pod).leaving) {
      this.#volumes.set(pod.metadata.uid, await this.#options.termsOfVolumes(pod));
      this.#turns = undefined;
    }
    return this.#plan().get(key);
  }

  #changed(): void {
    this.#turns = undefined;
    this.#cancel ??= this.#options.clock.schedule(announceMilliseconds, () => {
      this.#cancel = undefined;
      this.#announce();
    });
  }

  #announce(): void {
    const [before, turns] = [this.#announced, this.#plan()];
    this.#announced = turns;
    const isNew = (key: string) => JSON.stringify(before.get(key)) !== JSON.stringify(turns.get(key));
    const keys = [...new Set([...before.keys(), ...turns.keys()])].filter(isNew);
    if (keys.length > 0) for (const listener of this.#listeners) listener(keys);
  }

  #plan(): ReadonlyMap<string, Departure> {
    if (this.#turns !== undefined && this.#now() < this.#plannedAt + validMilliseconds) return this.#turns;
    this.#plannedAt = this.#now();
    this.#turns = this.#planned();
    return this.#turns;
  }

  #planned(): Map<string, Departure> {
    const { atOnce = defaultAtOnce } = this.#options;
    const leaving = this.#options.nodes.store.list().filter((node) => leavingNode(node).leaving);
    const all = atOnce === 0 ? [] : leaving.flatMap((node) => this.#candidatesOn(node));
    const found = all.flatMap(({ uid, candidate }) => (candidate === undefined ? [] : [{ uid, candidate }]));
    const moving = this.#moving("moving");
    if (all.length + moving.length === 0) return new Map();
    const captured = moving.filter(({ status, spec }) => status?.phase === "Paused" && spec.paused !== true);
    const turns = planMoves({
      candidates: found.map(({ candidate }) => candidate),
      moving: moving.flatMap((sandbox) => this.#underWay(sandbox) ?? []),
      captured: captured.map((sandbox) => orderOf(sandbox, undefined)),
      nodes: found.length === 0 ? [] : this.#targets(),
      atOnce: atOnce === 0 ? defaultAtOnce : atOnce,
      hasCpu: this.#hasCpu(),
    });
    this.#remember(found, turns);
    return new Map([
      ...all.map(({ key, cause, mark }): [string, Departure] => [
        key,
        { turn: "later", ...turns.get(key), cause, mark },
      ]),
      ...captured.map((sandbox): [string, Departure] => {
        const key = keyOf(sandbox.metadata);
        return [key, turns.get(key) ?? { turn: "now" }];
      }),
    ]);
  }

  /** Candidates are those whose volumes are known, and that have not just moved. */
  #candidatesOn(node: Node): Found[] {
    return this.#podsOn(node.metadata.name).flatMap((pod) => {
      const { uid } = pod.metadata;
      const sandbox = this.#options.informers.sandboxes.store.get(keyOf(pod.metadata));
      const leaving = leavingNode(node, tolerationsOf(pod));
      if (sandbox === undefined || !leaving.leaving || !isCandidate(sandbox, pod, leaving.cause)) return [];
      const { cause, mark, urgent } = leaving;
      const [why, terms] = [{ key: keyOf(pod.metadata), uid, cause, mark }, this.#termsOf(pod)];
      const isRecent = this.#isSince(sandbox.status?.ramet?.disruption?.endedAt, againMilliseconds);
      if (terms === undefined || isRecent) return [why];
      const isLate = this.#now() - (this.#since.get(uid) ?? Infinity) > beginMilliseconds;
      const place = placementOf(pod, node.metadata.labels ?? {}, terms);
      const needsTarget = disruptionPolicyOf(pod) === "Migrate";
      const candidate: Candidate = { ...orderOf(sandbox, pod), urgent, place, needsTarget, isLate };
      return [{ ...why, candidate }];
    });
  }

  /** Undefined: they must be looked up. */
  #termsOf({ metadata, spec }: Pod): Placement["terms"] | undefined {
    return (
      this.#volumes.get(metadata.uid) ?? (volumeClaims(spec.volumes ?? [], metadata.name).length === 0 ? [] : undefined)
    );
  }

  /** Whether less time has passed. */
  #isSince(time: string | undefined, milliseconds: number): boolean {
    return this.#options.clock.now().getTime() < Date.parse(time ?? "") + milliseconds;
  }

  /** Undefined: it waits for a node, or it takes too long. */
  #underWay({ metadata, status }: Sandbox): Moving | undefined {
    const { phase, podInfo: { nodeName = "" } = {}, ramet } = status ?? {};
    const isResuming = phase === "Resuming";
    const isLong = !this.#isSince(ramet?.disruption?.at, longestMoveMilliseconds);
    const pod = this.#options.informers.pods.store.get(keyOf(metadata));
    const moving = { namespace: metadata.namespace, nodeName, isResuming };
    if (isLong || pod === undefined) return isLong ? undefined : moving;
    if (!isResuming) return { ...moving, place: this.#placeOf(pod, nodeName) };
    if (pod.spec.nodeName !== undefined) return moving;
    return unscheduledWords(pod) === undefined ? { ...moving, place: this.#placeOf(pod, nodeName) } : undefined;
  }

  #placeOf(pod: Pod, nodeName: string): Placement {
    return placementOf(pod, this.#options.nodes.store.get(nodeName)?.metadata.labels ?? {});
  }

  #targets(): TargetNode[] {
    return this.#options.nodes.store.list().map(({ metadata, spec, status }) => {
      const used = this.#podsOn(metadata.name).filter((pod) => !isEnded(pod));
      return {
        metadata,
        spec,
        isReady: status.conditions?.some((one) => one.type === "Ready" && one.status === "True") ?? false,
        free: used.reduce((free, pod) => without(free, requestsOf(pod)), amountsOf(status.allocatable ?? {})),
      };
    });
  }

  #hasCpu(): Moves["hasCpu"] {
    const { nodes, nodeCpus } = this.#options;
    return (from, to) => {
      const [own, other] = [nodes.store.get(from), nodes.store.get(to)];
      return own && other && nodeCpus.covers(own, other);
    };
  }

  #remember(found: readonly { candidate: Candidate; uid: string }[], turns: ReadonlyMap<string, Turn>): void {
    const begins = found.filter(({ candidate }) => turns.get(candidate.key)?.turn === "now").map(({ uid }) => uid);
    for (const uid of begins) if (!this.#since.has(uid)) this.#since.set(uid, this.#now());
    const kept = new Set(begins);
    for (const uid of this.#since.keys()) if (!kept.has(uid)) this.#since.delete(uid);
  }

  #now(): number {
    return this.#options.clock.monotonicMilliseconds();
  }
}

/** Where the volumes of a Pod can be attached. A claim or a volume that cannot be found limits nothing: the scheduler decides. */
export async function termsOfVolumes({ metadata, spec }: Pod, client: KubeClient): Promise<NodeTerm[][]> {
  const { namespace } = metadata;
  const terms = volumeClaims(spec.volumes ?? [], metadata.name).map(async ({ claim: name }) => {
    const claim = await claimsIn(client).find({ namespace, name }).catch(ignoreFinal);
    const volume = claim?.spec.volumeName;
    const found = volume === undefined ? undefined : await volumesIn(client).find({ name: volume }).catch(ignoreFinal);
    return found?.spec.nodeAffinity?.required?.nodeSelectorTerms;
  });
  return (await Promise.all(terms)).filter((one) => one !== undefined);
}

/** A pause takes a sandbox from its user, so it waits for the end of a node that is only cordoned. */
function isCandidate(sandbox: Sandbox, pod: Pod, cause: DisruptionCause): boolean {
  const waitsForEnd = cause === "NodeCordoned" && disruptionPolicyOf(pod) === "Pause";
  return (
    runsIn(sandbox, pod) && isSavedFrom(sandbox, pod) && !waitsForEnd && !isUnderWay(sandbox.status?.ramet?.disruption)
  );
}

function runsIn({ metadata, spec, status }: Sandbox, pod: Pod): boolean {
  const isCurrent = status?.phase === "Running" && status.podInfo?.podUID === pod.metadata.uid;
  const isDeleted = [metadata, pod.metadata].some(({ deletionTimestamp }) => deletionTimestamp !== undefined);
  return isCurrent && !isDeleted && spec.paused !== true && !isEnded(pod);
}

interface Found {
  key: string;
  uid: string;
  cause: DisruptionCause;
  mark: string;
  candidate?: Candidate;
}

function ignoreFinal(error: unknown): undefined {
  if (RametError.from(error).retryable) throw error;
}

/** The priority is that of its Pod. */
function orderOf({ metadata }: Sandbox, pod: Pod | undefined) {
  const { namespace, creationTimestamp: createdAt } = metadata;
  return { key: keyOf(metadata), namespace, priority: Number(pod?.spec["priority"] ?? 0), createdAt };
}
