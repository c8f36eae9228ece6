import type { DisruptionCause, Sandbox } from "../../api/kinds/sandbox.ts";
import { volumeClaims } from "../../api/pod/volume-claims.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { isNodeReady, type Leaving, leavingNode, refusesPods, type Toleration } from "../../api/state/node.ts";
import {
  type Amounts,
  type Placement,
  placementOf,
  requestsOf,
  type TargetNode,
  tolerationsOf,
} from "../../api/state/target.ts";
import type { Clock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import type { Informer } from "../../kube/informer.ts";
import { keyOf, type KubeObject } from "../../kube/object.ts";
import type { NodeCpus } from "../nodes/node-cpus.ts";
import type { Node } from "../nodes/nodes.ts";
import {
  factsOfNode,
  factsOfPod,
  factsOfSandbox,
  type Found,
  isCandidate,
  isGained,
  needsTargetOf,
  orderOf,
  placeOfMoving,
  podOrLast,
  targetOf,
} from "./move-facts.ts";
import { isUnderWay } from "./pause-checkpoint.ts";
import { type Candidate, type Moving, type Moves, planMoves, type Turn } from "./plan-moves.ts";
import { isEnded } from "./pod-facts.ts";
import type { Informers } from "./resources.ts";
import { resumesInTurn, turnsToResume, underWay } from "./resumes.ts";

interface DeparturesOptions {
  termsOfVolumes: (pod: Pod) => Promise<Placement["terms"]>;
  /** What the Pods of others request, by node. Undefined: what is known of them still counts. */
  requestsOfOthers: () => Promise<ReadonlyMap<string, Amounts> | undefined>;
  nodes: Pick<Informer<Node>, "store">;
  informers: Pick<Informers, "pods" | "sandboxes">;
  nodeCpus: Pick<NodeCpus, "covers">;
  clock: Clock;
  /** How many sandboxes of a node move at the same time. 0: they stay until their Pods are ended. @default 4 */
  atOnce?: number | undefined;
}

/** Why a sandbox leaves its node, and whether it is its turn. Without a cause, its Pod was ended, and it resumes. */
export type Departure = Turn & { cause?: DisruptionCause; mark?: string };

const waits: Departure = { turn: "later" };
/** A move that has not begun after its turn keeps no other one waiting. */
const beginMilliseconds = 30_000;
/** After a move, and after a capture that has failed. */
const againMilliseconds = 60_000;
/** A plan of moves compares every sandbox of a leaving node with every node, so it is made again only after this time. */
const leastMilliseconds = 1_000;
/** Plans also depend on the time. */
const validMilliseconds = 5_000;
/** What others request is read again after this time, while a sandbox is to move. */
const othersMilliseconds = 30_000;
/** A Pod with more names would be long. */
const mostAvoided = 100;
/** Changes of this time are announced together. */
const announceMilliseconds = 200;

/** Follows which sandboxes leave their nodes, and whose turn it is. */
export class Departures {
  readonly #options: DeparturesOptions;
  readonly #podsOn: (node: string) => Pod[];
  readonly #moving: (value: "moving") => Sandbox[];
  /** By the UID of a Pod: the terms of its volumes, which do not change. */
  readonly #volumes = new Map<string, Placement["terms"]>();
  readonly #podOrLast: (key: string) => Pod | undefined;
  /** By the UID of a Pod: since when it is its turn. */
  readonly #since = new Map<string, number>();
  readonly #listeners: ((keys: readonly string[]) => void)[] = [];
  readonly #requests = new WeakMap<Pod, Amounts>();
  #others: { requests?: ReadonlyMap<string, Amounts>; read: Promise<void>; at: number } | undefined;
  #moves: ReadonlyMap<string, Departure> = new Map();
  #movesAt = -Infinity;
  #isChanged = true;
  #resumes: ReadonlyMap<string, Departure> | undefined;
  #resumesAt = 0;
  #announced: ReadonlyMap<string, Departure> = new Map();
  #cancel: (() => void) | undefined;
  /** At first, nobody knows what has changed before. */
  #gainedAt: number;

  constructor(options: DeparturesOptions) {
    this.#options = options;
    this.#gainedAt = options.clock.now().getTime();
    const { nodes, informers } = options;
    this.#podsOn = informers.pods.store.index(({ spec }) => (spec.nodeName === undefined ? [] : [spec.nodeName]));
    this.#moving = informers.sandboxes.store.index(({ status }) =>
      isUnderWay(status?.ramet?.disruption) ? ["moving"] : [],
    );
    this.#podOrLast = podOrLast(informers);
    nodes.store.subscribe((change) => {
      if (isGained(change)) this.#gainedAt = this.#options.clock.now().getTime();
    });
    this.#follow(nodes, factsOfNode);
    this.#follow(informers.pods, (pod) => [this.#requestsOf(pod), ...factsOfPod(pod)]);
    this.#follow(informers.sandboxes, factsOfSandbox);
    informers.pods.store.subscribe(({ type, object: { metadata } }) => {
      if (type === "deleted") this.#volumes.delete(metadata.uid);
    });
  }

  /** Calls `listener` with the keys of sandboxes whose departure has changed. */
  onChange(listener: (keys: readonly string[]) => void): void {
    this.#listeners.push(listener);
  }

  /** Calls `listener` with the Pods of a node that is about to end them, or does not respond, or no longer. */
  onNode(listener: (pods: readonly Pod[]) => void): void {
    const stateOf = (node: Node) => `${leavingNode(node).leaving} ${isNodeReady(node)}`;
    this.#options.nodes.store.subscribe((change) => {
      const { object } = change;
      const before = change.type === "updated" ? stateOf(change.previous) : "false true";
      if (before !== stateOf(object)) listener(this.#podsOn(object.metadata.name));
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

  /** The leaving nodes to which the scheduler may bring the next Pod of a moved sandbox nevertheless. */
  avoided({ status }: Sandbox, tolerations: readonly Toleration[]): string[] {
    const disruption = status?.ramet?.disruption;
    if (!isUnderWay(disruption) || this.#options.atOnce === 0) return [];
    return this.#options.nodes.store
      .list()
      .filter((node) => leavingNode(node, tolerations).leaving && !refusesPods(node, tolerations))
      .map(({ metadata }) => metadata.name)
      .sort((a, b) => Number(b === disruption?.nodeName) - Number(a === disruption?.nodeName))
      .slice(0, mostAvoided);
  }

  /** Whether the Pod, which no node takes, keeps away from a node that it needs not avoid any more. */
  avoidsInVain({ spec }: Pod, names: readonly string[]): boolean {
    return names.some((name) => {
      const node = this.#options.nodes.store.get(name);
      return node !== undefined && !leavingNode(node, tolerationsOf({ spec })).leaving;
    });
  }

  /**
   * A plan may be a second old, so what it says of a sandbox counts only as far as that is still so.
   * @returns undefined: it does not leave its node, and does not resume after that
   */
  async of(sandbox: Sandbox, pod: Pod | undefined): Promise<Departure | undefined> {
    const key = keyOf(sandbox.metadata);
    // The cache may not show its capture yet.
    if (resumesInTurn(sandbox, pod))
      return this.#resumesNow().get(key) ?? this.#resumesWith([sandbox]).get(key) ?? waits;
    return this.#leave(sandbox, pod, key);
  }

  async #leave(sandbox: Sandbox, pod: Pod | undefined, key: string): Promise<Departure | undefined> {
    const leaving = this.leaves(pod);
    if (pod === undefined || !leaving.leaving) return undefined;
    const needsTarget = needsTargetOf(pod, leaving.cause);
    if (needsTarget && this.#termsOf(pod) === undefined) {
      this.#volumes.set(pod.metadata.uid, await this.#options.termsOfVolumes(pod));
      this.#changed();
    }
    if (needsTarget) await this.#countOthers();
    const planned = this.#movesNow().get(key);
    if (planned === undefined || !isCandidate(sandbox, pod, leaving.cause)) return undefined;
    return this.#isRecent(sandbox, leaving) ? { ...planned, turn: "later" } : planned;
  }

  /** A plan waits for that, once. */
  async #countOthers(): Promise<void> {
    const known = this.#others;
    if (known !== undefined && this.#now() < known.at + othersMilliseconds) return known.read;
    const read = this.#options.requestsOfOthers().then((requests = known?.requests) => {
      this.#others = { ...defined({ requests }), read, at: this.#now() };
      this.#movesAt = -Infinity;
      this.#changed();
    });
    this.#others = { ...known, read, at: this.#now() };
    await read;
  }

  /** Makes new plans after a change of what they depend on. */
  #follow<T extends KubeObject>({ store }: Pick<Informer<T>, "store">, factsOf: (object: T) => unknown): void {
    const textOf = (object: T) => JSON.stringify(factsOf(object));
    store.subscribe((change) => {
      if (change.type !== "updated" || textOf(change.object) !== textOf(change.previous)) this.#changed();
    });
  }

  #changed(): void {
    this.#isChanged = true;
    this.#resumes = undefined;
    this.#announceIn(announceMilliseconds);
  }

  #announceIn(milliseconds: number): void {
    this.#cancel ??= this.#options.clock.schedule(milliseconds, () => {
      this.#cancel = undefined;
      this.#announce();
    });
  }

  #announce(): void {
    const [before, turns] = [this.#announced, new Map([...this.#movesNow(), ...this.#resumesNow()])];
    this.#announced = turns;
    const isNew = (key: string) => JSON.stringify(before.get(key)) !== JSON.stringify(turns.get(key));
    const keys = [...new Set([...before.keys(), ...turns.keys()])].filter(isNew);
    if (this.#isChanged) this.#announceIn(this.#movesAt + leastMilliseconds - this.#now());
    if (keys.length > 0) for (const listener of this.#listeners) listener(keys);
  }

  #movesNow(): ReadonlyMap<string, Departure> {
    if (this.#now() < this.#movesAt + (this.#isChanged ? leastMilliseconds : validMilliseconds)) return this.#moves;
    this.#movesAt = this.#now();
    this.#isChanged = false;
    this.#moves = this.#plannedMoves();
    return this.#moves;
  }

  #plannedMoves(): Map<string, Departure> {
    const { atOnce } = this.#options;
    const leaving = this.#options.nodes.store.list().filter((node) => leavingNode(node).leaving);
    const all = atOnce === 0 ? [] : leaving.flatMap((node) => this.#candidatesOn(node));
    const found = all.flatMap(({ uid, candidate }) => (candidate === undefined ? [] : [{ uid, candidate }]));
    const turns = planMoves({
      candidates: found.map(({ candidate }) => candidate),
      moving:
        found.length === 0
          ? []
          : this.#underWay().map((one) => ({ ...one, place: placeOfMoving(one, this.#options.nodes) })),
      nodes: found.length === 0 ? [] : this.#targets(),
      atOnce,
      hasCpu: this.#hasCpu(),
    });
    this.#remember(found, turns);
    return new Map(all.map(({ key, cause, mark }) => [key, { turn: "later", ...turns.get(key), cause, mark }]));
  }

  /** Of the few sandboxes that move, so that no resume waits for a plan of moves. */
  #resumesNow(): ReadonlyMap<string, Departure> {
    if (this.#resumes !== undefined && this.#now() < this.#resumesAt + validMilliseconds) return this.#resumes;
    this.#resumesAt = this.#now();
    this.#resumes = this.#resumesWith([]);
    return this.#resumes;
  }

  #resumesWith(others: readonly Sandbox[]): ReadonlyMap<string, Departure> {
    return turnsToResume({ ...this.#resuming(), moving: [...this.#moving("moving"), ...others] });
  }

  #resuming() {
    const { informers, clock, atOnce } = this.#options;
    const podOf = (key: string) => informers.pods.store.get(key);
    const now = clock.now().getTime();
    return { podOf, podOrLast: this.#podOrLast, now, gainedAt: this.#gainedAt, atOnce };
  }

  /** Candidates are those for which it is known what is free, whose volumes are known, and that have not just moved. */
  #candidatesOn(node: Node): Found[] {
    return this.#podsOn(node.metadata.name).flatMap((pod) => {
      const { uid } = pod.metadata;
      const sandbox = this.#options.informers.sandboxes.store.get(keyOf(pod.metadata));
      const leaving = leavingNode(node, tolerationsOf(pod));
      if (sandbox === undefined || !leaving.leaving || !isCandidate(sandbox, pod, leaving.cause)) return [];
      const { cause, mark, urgent } = leaving;
      const [why, terms] = [{ key: keyOf(pod.metadata), uid, cause, mark }, this.#termsOf(pod)];
      const needsTarget = needsTargetOf(pod, cause);
      const isKnown = terms !== undefined && this.#others?.requests !== undefined;
      if ((needsTarget && !isKnown) || this.#isRecent(sandbox, leaving)) return [why];
      const isLate = this.#now() - (this.#since.get(uid) ?? Infinity) > beginMilliseconds;
      const place = placementOf(pod, node.metadata.labels ?? {}, terms ?? []);
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

  /** Also one whose capture has failed and is repeated later. What ends soon waits for no earlier move, and for no other cause. */
  #isRecent({ status }: Sandbox, { cause, urgent }: Extract<Leaving, { leaving: true }>): boolean {
    const { cause: before, endedAt, podUID, problem } = status?.ramet?.disruption ?? {};
    const isOwn = podUID === status?.podInfo?.podUID && (!urgent || cause === before);
    return (isOwn && this.#isSince(problem?.retryAt, 0)) || (!urgent && this.#isSince(endedAt, againMilliseconds));
  }

  /** Whether less time has passed. */
  #isSince(time: string | undefined, milliseconds: number): boolean {
    return this.#options.clock.now().getTime() < Date.parse(time ?? "") + milliseconds;
  }

  #underWay(): (Moving & { pod?: Pod })[] {
    return underWay({ ...this.#resuming(), moving: this.#moving("moving") });
  }

  #requestsOf(pod: Pod): Amounts {
    const known = this.#requests.get(pod) ?? requestsOf(pod);
    this.#requests.set(pod, known);
    return known;
  }

  #targets(): TargetNode[] {
    return this.#options.nodes.store.list().map((node) => {
      const { name } = node.metadata;
      const own = this.#podsOn(name).filter((pod) => !isEnded(pod));
      return targetOf(node, [this.#others?.requests?.get(name) ?? {}, ...own.map((pod) => this.#requestsOf(pod))]);
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
    for (const uid of this.#since.keys()) if (!begins.includes(uid)) this.#since.delete(uid);
  }

  #now(): number {
    return this.#options.clock.monotonicMilliseconds();
  }
}
