import {
  type Amounts,
  lastingMisfit,
  misfit,
  type Misfit,
  misfits,
  type NextNode,
  type Placement,
  type TargetNode,
  without,
} from "../../api/state/target.ts";

/** Sandboxes that leave their nodes before their Pods are ended. */
export interface Moves {
  /** Running sandboxes of leaving nodes whose capture has not begun. */
  candidates: readonly Candidate[];
  /** Sandboxes that are captured or resumed now, as far as they use the store and the nodes. */
  moving: readonly Moving[];
  nodes: readonly TargetNode[];
  /** How many sandboxes of a node move at the same time; twice as many of a namespace, and four times as many in all. @default 4 */
  atOnce?: number | undefined;
  /** Whether a node is known to have the CPU features of another one. */
  hasCpu: (from: string, to: string) => boolean | undefined;
}

/** What the order depends on. */
interface Ordered {
  key: string;
  namespace: string;
  priority: number;
  createdAt: string;
}

export interface Candidate extends Ordered {
  urgent: boolean;
  place: Placement;
  /** It continues on another node. */
  needsTarget: boolean;
  /** It has had its turn and has not begun: it waits for nobody, and nobody for it. */
  isLate: boolean;
}

export interface Moving {
  namespace: string;
  nodeName: string;
  isResuming: boolean;
  /** What it will request on another node. Undefined: it is there, or it is not known. */
  place?: Placement | undefined;
}

export type Turn = { turn: "now" } | { turn: "later" } | { turn: "noTarget"; message: string };

/**
 * Whose turn it is, by key. Urgent nodes come first, then Pods with a higher priority, then older sandboxes. A sandbox that no node
 * takes does not begin and keeps nobody waiting. Pure, and the same for the same state, so concurrent callers admit the same ones.
 */
export function planMoves(moves: Moves): Map<string, Turn> {
  const targets = targetsIn(moves);
  for (const { place } of moves.moving) if (place !== undefined) targets.take(place);
  const places = placesFor(moves.moving, moves.atOnce);
  return new Map([...moves.candidates].sort(inOrder).map((one) => [one.key, turnOf(one, places, targets)]));
}

/** Sandboxes that resume after their Pods were ended. */
export interface Resumes extends Pick<Moves, "moving" | "atOnce"> {
  /** Captured sandboxes without a Pod. */
  captured: readonly Ordered[];
}

/** Whose turn it is to resume, in the same order. Pure. */
export function planResumes({ captured, moving, atOnce }: Resumes): Map<string, Turn> {
  const resuming = moving.filter(({ isResuming }) => isResuming);
  const places = placesFor(resuming, atOnce);
  return new Map([...captured].sort(inOrder).map((one) => [one.key, places.take(one) ? now : later]));
}

/** Captures of sandboxes whose Pods are ended, or will be. */
export interface Captures {
  waiting: readonly WaitingCapture[];
  /** Those under way. */
  running: readonly { namespace: string; nodeName: string }[];
  atOnce?: number | undefined;
}

export interface WaitingCapture extends Ordered {
  place: Pick<Placement, "nodeName">;
  /** It then begins beside the others, because its grace period ends. */
  latestInMilliseconds: number;
}

/** Which captures begin now, by key. Pure. */
export function planCaptures({ waiting, running, atOnce }: Captures): Set<string> {
  const places = placesFor(running, atOnce);
  const due = waiting.filter(({ latestInMilliseconds }) => latestInMilliseconds <= 0);
  for (const one of due) places.take(one);
  const others = waiting.filter((one) => !due.includes(one)).sort(inOrder);
  return new Set([...due, ...others.filter((one) => places.take(one))].map(({ key }) => key));
}

const defaultAtOnce = 4;

const now: Turn = { turn: "now" };
const later: Turn = { turn: "later" };

function turnOf(one: Candidate, places: ReturnType<typeof placesFor>, targets: ReturnType<typeof targetsIn>): Turn {
  if (!one.isLate && places.isFull(one)) return later;
  const found = one.needsTarget ? targets.take(one.place) : undefined;
  if (found !== undefined) return { turn: "noTarget", message: found };
  if (!one.isLate) places.take(one);
  return now;
}

function inOrder(a: Ordered & { urgent?: boolean }, b: Ordered & { urgent?: boolean }): number {
  const urgency = Number(b.urgent ?? false) - Number(a.urgent ?? false);
  const age = a.createdAt.localeCompare(b.createdAt) || a.key.localeCompare(b.key);
  return urgency || b.priority - a.priority || age;
}

type Placed = Ordered & { place?: Pick<Placement, "nodeName"> };

/** Counts by source node, by namespace and in all. Those that resume are not limited by their former node. */
function placesFor(taken: readonly Pick<Moving, "namespace" | "nodeName">[], given: number | undefined) {
  const atOnce = given || defaultAtOnce;
  const counts = new Map<string, number>();
  const keysOf = ({ namespace, nodeName }: { namespace: string; nodeName?: string }): [string, number][] => [
    ...(nodeName === undefined ? [] : [[`node ${nodeName}`, atOnce] as [string, number]]),
    [`namespace ${namespace}`, 2 * atOnce],
    ["all", 4 * atOnce],
  ];
  const add = (one: Parameters<typeof keysOf>[0]) => {
    for (const [key] of keysOf(one)) counts.set(key, (counts.get(key) ?? 0) + 1);
  };
  for (const one of taken) add(one);
  const nodeOf = (one: Placed) => ({
    namespace: one.namespace,
    ...(one.place && { nodeName: one.place.nodeName }),
  });
  const isFull = (one: Placed) => keysOf(nodeOf(one)).some(([key, most]) => (counts.get(key) ?? 0) >= most);
  const take = (one: Placed): boolean => {
    if (isFull(one)) return false;
    add(nodeOf(one));
    return true;
  };
  return { isFull, take };
}

/** Reserves what each sandbox will request on the node with the most memory left. */
function targetsIn({ nodes, hasCpu }: Moves) {
  const left = new Map<string, Amounts>(nodes.map(({ metadata, free }) => [metadata.name, free]));
  // Many sandboxes are alike, and nodes only get fuller.
  const refusals = new Map<string, string>();
  /** Returns why no node takes it. */
  const take = (place: Placement): string | undefined => {
    const text = JSON.stringify(place);
    const refused = refusals.get(text) ?? find(place);
    if (refused !== undefined) refusals.set(text, refused);
    return refused;
  };
  const find = (place: Placement): string | undefined => {
    const found = new Map<Misfit, number>();
    let best: TargetNode | undefined;
    for (const node of nodes) {
      const { name } = node.metadata;
      const now = { ...node, free: left.get(name) ?? {} };
      const why = misfit(place, now, hasCpu(place.cpuOf ?? place.nodeName, name));
      if (why !== undefined) found.set(why, (found.get(why) ?? 0) + 1);
      else if (best === undefined || (now.free["memory"] ?? 0) > (best.free["memory"] ?? 0)) best = now;
    }
    if (best === undefined) return nodes.length <= 1 ? "No other node exists" : noTarget(found, nodes.length);
    left.set(best.metadata.name, without(best.free, place.requests));
    return undefined;
  };
  return { take };
}

/**
 * Why no node can take a Pod however empty the nodes get. Undefined: one may, or none takes any Pod.
 * @param nodes with all that is free if nothing runs there
 */
export function fitsNowhere(place: Placement, nodes: readonly NextNode[]): string | undefined {
  const found = new Map<Misfit, number>();
  for (const node of nodes) {
    const why = lastingMisfit(place, node);
    if (why === undefined) return undefined;
    found.set(why, (found.get(why) ?? 0) + 1);
  }
  const isLasting = [...found.keys()].some((why) => why !== "unschedulable");
  return isLasting ? noTarget(found, nodes.length) : undefined;
}

function noTarget(found: ReadonlyMap<Misfit, number>, nodes: number): string {
  // In a fixed order, because the status has it.
  const reasons = Object.entries(misfits).flatMap(([why, words]) => {
    const count = found.get(why as Misfit);
    return count === undefined ? [] : [`${count} ${words}`];
  });
  return `Of ${nodes} nodes, ${reasons.join(", ")}`;
}
