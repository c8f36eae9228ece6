import { describe, expect, it } from "vitest";
import type { Placement, TargetNode } from "../../api/state/target.ts";
import {
  type Candidate,
  fitsNowhere,
  type Moves,
  planCaptures,
  planMoves,
  planResumes,
  type Resumes,
  type WaitingCapture,
} from "./plan-moves.ts";

const labels = { "kubernetes.io/arch": "amd64" };
const place = (nodeName: string, memory = 1): Placement => ({
  nodeName,
  nodeLabels: labels,
  tolerations: [],
  nodeSelector: {},
  terms: [],
  requests: { memory, pods: 1 },
});
const node = (name: string, memory = 1_000, spec: TargetNode["spec"] = {}): TargetNode => ({
  metadata: { name, labels },
  spec,
  isReady: true,
  free: { memory, pods: 1_000 },
});
const candidate = (key: string, rest: Partial<Candidate> = {}): Candidate => ({
  key,
  namespace: "t",
  priority: 0,
  createdAt: "2030-01-01T00:00:00Z",
  urgent: false,
  place: place("old"),
  needsTarget: true,
  isLate: false,
  ...rest,
});
const cordoned = node("old", 1_000, { unschedulable: true });
const world = (rest: Partial<Moves>): Moves => ({
  candidates: [],
  moving: [],
  nodes: [cordoned, node("new")],
  atOnce: 2,
  hasCpu: () => undefined,
  ...rest,
});
const begins = (rest: Partial<Moves>) =>
  [...planMoves(world(rest))].filter(([, { turn }]) => turn === "now").map(([key]) => key);
const many = (count: number, rest: (at: number) => Partial<Candidate> = () => ({})) =>
  Array.from({ length: count }, (_, at) => candidate(`t/${String(at).padStart(3, "0")}`, rest(at)));

describe("the order of moves", () => {
  it("is by urgency, then by priority, then by age", () => {
    const candidates = [
      candidate("t/young", { createdAt: "2030-01-02T00:00:00Z" }),
      candidate("t/old"),
      candidate("t/important", { priority: 10, createdAt: "2030-01-03T00:00:00Z" }),
      candidate("t/spot", { urgent: true, place: place("spot"), createdAt: "2030-01-04T00:00:00Z" }),
    ];
    expect(begins({ candidates, atOnce: 3 })).toEqual(["t/spot", "t/important", "t/old", "t/young"]);
    expect(begins({ candidates, atOnce: 1 })).toEqual(["t/spot", "t/important"]);
  });

  it("does not depend on the order in which sandboxes are found", () => {
    const candidates = many(20, (at) => ({ priority: at % 3 }));
    expect(begins({ candidates: candidates.toReversed() })).toEqual(begins({ candidates }));
  });
});

describe("the number of moves at the same time", () => {
  const elsewhere = (at: number) => ({ namespace: `n${at}`, place: place(`old-${at}`) });
  it.each([
    ["a node", (at: number) => ({ namespace: `n${at}` }), 2],
    ["a namespace", (at: number) => ({ place: place(`old-${at}`) }), 4],
    ["the store", elsewhere, 8],
  ])("is bounded for %s", (_, rest, expected) => {
    expect(begins({ candidates: many(20, rest) })).toHaveLength(expected);
  });

  it("counts those that move already, and those that resume", () => {
    const moving = [{ namespace: "t", nodeName: "old", isResuming: false }];
    expect(begins({ candidates: many(5), moving })).toEqual(["t/000"]);
    expect(begins({ candidates: many(5), moving: [...moving, { ...moving[0]!, isResuming: true }] })).toEqual([]);
  });

  it("bounds resumes by namespace and in all, whatever their former node is", () => {
    const captured = many(20).map(({ key, namespace, priority, createdAt }) => ({
      key,
      namespace,
      priority,
      createdAt,
    }));
    const resumes = (moving: Resumes["moving"]) =>
      [...planResumes({ captured, moving, atOnce: 2 })].filter(([, { turn }]) => turn === "now").map(([key]) => key);
    expect(resumes([])).toEqual(["t/000", "t/001", "t/002", "t/003"]);
    const moving = [1, 2, 3].map((at) => ({ namespace: "t", nodeName: `old-${at}`, isResuming: true }));
    expect(resumes(moving)).toEqual(["t/000"]);
    expect(resumes(moving.map((one) => ({ ...one, isResuming: false })))).toHaveLength(4);
  });

  it("does not count a sandbox that has had its turn and has not begun", () => {
    const late = candidate("t/late", { isLate: true });
    expect(begins({ candidates: [late, ...many(5)] })).toEqual(["t/000", "t/001", "t/late"]);
  });
});

describe("the target", () => {
  it("has room for all that move to it", () => {
    const candidates = many(5, () => ({ place: place("old", 400) }));
    const turns = planMoves(world({ candidates, atOnce: 5 }));
    expect([...turns.values()].map(({ turn }) => turn)).toEqual(["now", "now", "noTarget", "noTarget", "noTarget"]);
    const moving = [{ namespace: "t", nodeName: "old", isResuming: false, place: place("old", 400) }];
    expect(begins({ candidates, atOnce: 5, moving })).toEqual(["t/000"]);
  });

  it("is the one with the most memory left, so that none is filled alone", () => {
    const candidates = many(3, () => ({ place: place("old", 600) }));
    const nodes = [cordoned, node("a"), node("b")];
    expect(begins({ candidates, nodes, atOnce: 5 })).toEqual(["t/000", "t/001"]);
  });

  it("is missing for a sandbox that keeps no other one waiting, and the reason names all nodes", () => {
    const large = candidate("t/large", { priority: 1, place: place("old", 5_000) });
    const turns = planMoves(world({ candidates: [large, ...many(3)], atOnce: 1 }));
    expect(turns.get("t/large")).toEqual({
      turn: "noTarget",
      message: "Of 2 nodes, 1 do not accept its Pod, 1 have too little CPU, memory or devices left",
    });
    expect(turns.get("t/000")).toEqual({ turn: "now" });
    expect(turns.get("t/001")).toEqual({ turn: "later" });
  });

  it("does not exist in a cluster of one node, and a pause needs none", () => {
    const candidates = [candidate("t/a"), candidate("t/b", { needsTarget: false })];
    const turns = planMoves(world({ candidates, nodes: [cordoned] }));
    expect(turns.get("t/a")).toEqual({ turn: "noTarget", message: "No other node exists" });
    expect(turns.get("t/b")).toEqual({ turn: "now" });
  });

  it("has the CPU features of the present node, if they are known", () => {
    const hasCpu = (_: string, to: string) => to === "fits";
    const turns = planMoves(world({ candidates: [candidate("t/a")], hasCpu }));
    expect(turns.get("t/a")).toMatchObject({
      turn: "noTarget",
      message: expect.stringContaining("CPU features") as string,
    });
    expect(begins({ candidates: [candidate("t/a")], hasCpu, nodes: [cordoned, node("new"), node("fits")] })).toEqual([
      "t/a",
    ]);
  });
});

/** A simulation: moves take one to five steps, and what is planned begins. Nodes and captures are not real. */
it("moves 500 sandboxes of five nodes within the bounds, in order, and begins nothing after a mark is withdrawn", () => {
  const total = 500;
  const nodeOf = (at: number) => `old-${at % 5}`;
  const waiting = new Map(
    many(total, (at) => ({ namespace: `n${at % 7}`, priority: at % 3, place: place(nodeOf(at), 7) })).map((one) => [
      one.key,
      one,
    ]),
  );
  const marked = new Set(Array.from({ length: 5 }, (_, at) => `old-${at}`));
  const targets = [node("new-0", 2_000), node("new-1", 2_000)];
  const moving = new Map<string, { one: Candidate; left: number }>();
  const [arrived, begun]: [string[], Candidate[]] = [[], []];
  for (let step = 0; step < 2_000 && waiting.size + moving.size > 0; step++) {
    if (step === 20) marked.delete("old-4");
    for (const [key, move] of moving) {
      if (--move.left > 0) continue;
      moving.delete(key);
      arrived.push(key);
      const [least] = [...targets].sort((a, b) => (b.free["memory"] ?? 0) - (a.free["memory"] ?? 0));
      if (least !== undefined) least.free = { ...least.free, memory: (least.free["memory"] ?? 0) - 7 };
    }
    const candidates = [...waiting.values()].filter((one) => marked.has(one.place.nodeName));
    const nodes = [...targets, ...[...marked].map((name) => node(name, 0, { unschedulable: true }))];
    const underWay = [...moving.values()].map(({ one }) => ({
      namespace: one.namespace,
      nodeName: one.place.nodeName,
      isResuming: false,
      place: one.place,
    }));
    const turns = planMoves(world({ candidates, nodes, moving: underWay, atOnce: 4 }));
    const next = candidates.filter(({ key }) => turns.get(key)?.turn === "now").sort((a, b) => b.priority - a.priority);
    for (const one of next) {
      waiting.delete(one.key);
      begun.push(one);
      moving.set(one.key, { one, left: 1 + (begun.length % 5) });
    }
    const all = [...moving.values()].map(({ one }) => one);
    const most = (keyOf: (one: Candidate) => string) =>
      Math.max(0, ...[...Map.groupBy(all, keyOf).values()].map(({ length }) => length));
    expect(most(({ place: { nodeName } }) => nodeName)).toBeLessThanOrEqual(4);
    expect(most(({ namespace }) => namespace)).toBeLessThanOrEqual(8);
    expect(all.length).toBeLessThanOrEqual(16);
    // The nodes have room for all that is under way.
    const left = targets.reduce((sum, { free }) => sum + (free["memory"] ?? 0), 0);
    expect(left).toBeGreaterThanOrEqual(all.length * 7);
    if (next.length === 0 && moving.size === 0) break;
  }
  expect(new Set(arrived).size).toBe(arrived.length);
  expect(arrived.length + waiting.size).toBe(total);
  // The withdrawn node keeps what had not begun. All others have moved.
  const stayed = [...waiting.values()];
  expect(stayed.every(({ place: { nodeName } }) => nodeName === "old-4")).toBe(true);
  expect(stayed.length).toBeGreaterThan(0);
  // On each node, no sandbox has begun before one with a higher priority.
  for (const [, ofNode] of Map.groupBy(begun, ({ place: { nodeName } }) => nodeName)) {
    const priorities = ofNode.map(({ priority, namespace }) => `${namespace} ${priority}`);
    for (const namespace of new Set(ofNode.map((one) => one.namespace))) {
      const own = priorities.filter((text) => text.startsWith(`${namespace} `));
      expect(own).toEqual([...own].sort().reverse());
    }
  }
});

describe("the captures of sandboxes whose Pods are ended", () => {
  const capture = (key: string, rest: Partial<WaitingCapture> = {}): WaitingCapture => ({
    key,
    namespace: "t",
    priority: 0,
    createdAt: "2030-01-01T00:00:00Z",
    place: { nodeName: "old" },
    latestInMilliseconds: 9_000,
    ...rest,
  });
  const evicted = (count: number, rest: (at: number) => Partial<WaitingCapture> = () => ({})) =>
    Array.from({ length: count }, (_, at) => capture(`t/${String(at).padStart(3, "0")}`, rest(at)));
  const begin = (waiting: WaitingCapture[], running: { namespace: string; nodeName: string }[] = []) => [
    ...planCaptures({ waiting, running, atOnce: 2 }),
  ];

  it.each([
    ["a node", (at: number) => ({ namespace: `n${at}` }), 2],
    ["a namespace", (at: number) => ({ place: { nodeName: `old-${at}` } }), 4],
    ["the store", (at: number) => ({ namespace: `n${at}`, place: { nodeName: `old-${at}` } }), 8],
  ])("are bounded for %s", (_, rest, expected) => {
    expect(begin(evicted(50, rest))).toHaveLength(expected);
  });

  it("count those that are under way", () => {
    expect(begin(evicted(3), [{ namespace: "other", nodeName: "old" }])).toEqual(["t/000"]);
    expect(begin(evicted(3), [{ namespace: "other", nodeName: "another" }])).toEqual(["t/000", "t/001"]);
  });

  it("begin in the order of priority and age", () => {
    const waiting = [
      capture("t/young", { createdAt: "2030-01-02T00:00:00Z" }),
      capture("t/old"),
      capture("t/important", { priority: 10, createdAt: "2030-01-03T00:00:00Z" }),
    ];
    expect(begin(waiting)).toEqual(["t/important", "t/old"]);
  });

  it("begin beside the others when their grace periods end, whatever their priority is", () => {
    const due = { priority: -1, latestInMilliseconds: 0 };
    const running = evicted(2).map(() => ({ namespace: "t", nodeName: "old" }));
    expect(begin([...evicted(5), capture("t/due", due)], running)).toEqual(["t/due"]);
    expect(begin([...evicted(5), capture("t/due", due)])).toEqual(["t/due", "t/000"]);
    expect(begin(evicted(50, () => due))).toHaveLength(50);
  });

  it("all begin once, none twice at the same time, and never more than allowed", () => {
    const priorities = (at: number) => ({ priority: at % 3 });
    let waiting = evicted(20, priorities);
    const rounds: string[][] = [];
    while (waiting.length > 0) {
      const begun = begin(waiting);
      rounds.push(begun);
      waiting = waiting.filter(({ key }) => !begun.includes(key));
    }
    expect(rounds).toHaveLength(10);
    expect(new Set(rounds.flat()).size).toBe(20);
  });
});

describe("a Pod that the scheduler cannot place", () => {
  const [gpu, zone] = ["nvidia.com/gpu", { key: "zone", operator: "In", values: ["a"] }];
  const next = (rest: Partial<Placement> = {}): Placement => ({ ...place(""), nodeLabels: {}, ...rest });
  const fits = (rest: Partial<Placement>, lacksCpu = false, isNew = false) =>
    fitsNowhere(
      next(rest),
      [cordoned, node("new", 0)].map((one) => ({ ...one, lacksCpu, isNew })),
    );

  it.each<[string, Partial<Placement>, boolean]>([
    ["have another architecture", { nodeSelector: { "kubernetes.io/arch": "arm64" } }, false],
    ["are not known to have its CPU features", {}, true],
    ["do not have its devices", { requests: { [gpu]: 1 } }, false],
    ["cannot have its volumes", { terms: [[], [{ matchExpressions: [zone], matchFields: [] }]] }, false],
  ])("fits no node that accepts Pods: they %s", (words, rest, lacksCpu) => {
    expect(fits(rest, lacksCpu)).toBe(`Of 2 nodes, 1 do not accept its Pod, 1 ${words}`);
  });

  it("may fit if room or a node with its labels is missing, or no node accepts Pods", () => {
    expect(fits({ requests: { memory: 1_000 } })).toBeUndefined();
    expect(fits({ nodeSelector: { pool: "a" } })).toBeUndefined();
    expect(
      fitsNowhere(next({ requests: { [gpu]: 1 } }), [{ ...cordoned, lacksCpu: false, isNew: false }]),
    ).toBeUndefined();
  });

  it("may fit a new node, whose drivers have not told of its volumes and devices yet", () => {
    expect(fits({ requests: { [gpu]: 1 } }, false, true)).toBeUndefined();
    expect(fits({ terms: [[], [{ matchExpressions: [zone], matchFields: [] }]] }, false, true)).toBeUndefined();
    expect(fits({ nodeSelector: { "kubernetes.io/arch": "arm64" } }, false, true)).toContain("architecture");
  });
});
