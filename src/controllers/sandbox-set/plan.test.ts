import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SandboxSet, type SandboxSetSpec } from "../../api/kinds/sandbox-set.ts";
import { Sandbox, type SandboxStatus } from "../../api/kinds/sandbox.ts";
import { setRevision } from "../../api/set/set-revision.ts";
import { planSet } from "./plan.ts";
import { type Member, type SetAction, type SetState, boundsOf, memberOf } from "./state.ts";

const apiVersion = "agents.kruise.io/v1alpha1" as const;
const meta = (name: string) => ({
  name,
  namespace: "n",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: "2030-01-01T00:00:00Z",
});
const template = { spec: { containers: [{ name: "main", image: "python" }] } };
const now = new Date("2030-01-01T01:00:00Z");
const quietBackoff = {
  inARow: 0,
  problem: undefined,
  waitMilliseconds: 0,
  nextAt: undefined,
  message: "",
  isConclusive: false,
  lastAt: undefined,
};

function stateOf(spec: Partial<SandboxSetSpec>, members: Member[], more: Partial<SetState> = {}): SetState {
  const set = SandboxSet.parse({
    apiVersion,
    kind: "SandboxSet",
    metadata: meta("pool"),
    spec: { replicas: 3, template, ...spec },
  });
  return {
    set,
    revision: setRevision(set, undefined, (id) => id),
    sameContent: new Set(),
    bounds: boundsOf(set.spec),
    members,
    departing: [],
    unseen: [],
    deletionsUnseen: false,
    ignored: [],
    templates: [],
    backoff: quietBackoff,
    now,
    ...more,
  };
}

const present = setRevision(stateOf({}, []).set, undefined, (id) => id).hash;

interface Shape {
  kind: "creating" | "starting" | "available" | "claimed" | "locked" | "paused" | "dead" | "victim" | "leaving";
  old: boolean;
  ageSeconds: number;
}

const ready = (status: "True" | "False") => [
  { type: "Ready", status, reason: "x", message: "", lastTransitionTime: "2030-01-01T00:00:00Z" },
];
const phases: Record<Shape["kind"], SandboxStatus> = {
  creating: {},
  starting: { phase: "Running", conditions: ready("False") },
  available: { phase: "Running", conditions: ready("True") },
  claimed: { phase: "Running", conditions: ready("True") },
  locked: { phase: "Running", conditions: ready("True") },
  paused: { phase: "Paused" },
  dead: { phase: "Failed", message: "it broke" },
  victim: { phase: "Running", conditions: ready("True") },
  leaving: { phase: "Running", conditions: ready("True") },
};

function memberFrom({ kind, old, ageSeconds }: Shape, index: number): Member {
  const annotations: Record<string, string> = {
    ...(kind === "locked" && { "agents.kruise.io/lock": "x" }),
    ...(kind === "victim" && { "agents.kruise.io/lock": "x", "agents.kruise.io/owner": "__manager_scale_down" }),
  };
  const sandbox = Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    spec: { ...(kind === "paused" && { paused: true }) },
    status: phases[kind],
    metadata: {
      ...meta(`s${index}`),
      creationTimestamp: new Date(now.getTime() - ageSeconds * 1000).toISOString(),
      annotations,
      labels: {
        "agents.kruise.io/sandbox-claimed": String(kind === "claimed"),
        "agents.kruise.io/template-hash": old ? "an-old-one" : present,
      },
    },
  });
  return memberOf(sandbox, kind === "leaving");
}

const shape = fc.record<Shape>({
  kind: fc.constantFrom(
    "creating",
    "starting",
    "available",
    "available",
    "claimed",
    "locked",
    "paused",
    "dead",
    "victim",
    "leaving",
  ),
  old: fc.boolean(),
  ageSeconds: fc.integer({ min: 0, max: 20 }),
});
const bound = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.constantFrom("10%", "50%"));
const world = fc.record({
  shapes: fc.array(shape, { maxLength: 14 }),
  replicas: fc.nat({ max: 8 }),
  scale: fc.option(bound, { nil: undefined }),
  update: fc.option(fc.oneof(bound, fc.constant(0)), { nil: undefined }),
  unseen: fc.nat({ max: 3 }),
  deletionsUnseen: fc.boolean(),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

function stateFrom({ shapes, replicas, scale, update, unseen, deletionsUnseen }: World): SetState {
  const spec = {
    replicas,
    ...(scale !== undefined && { scaleStrategy: { maxUnavailable: scale } }),
    ...(update !== undefined && { updateStrategy: { maxUnavailable: update } }),
  };
  const unseenSandboxes = Array.from({ length: unseen }, () => ({ revisionHash: present }));
  return stateOf(spec, shapes.map(memberFrom), { unseen: unseenSandboxes, deletionsUnseen });
}

const of = <K extends SetAction["do"]>(actions: SetAction[], kind: K) =>
  actions.filter((action): action is Extract<SetAction, { do: K }> => action.do === kind);
const created = (actions: SetAction[]) => of(actions, "create").reduce((sum, { count }) => sum + count, 0);
const count = (members: Member[], ...states: Member["state"][]) =>
  members.filter(({ state }) => states.includes(state)).length;

describe("planSet", () => {
  it("never changes a sandbox that is in use", () => {
    fc.assert(
      fc.property(world, (given) => {
        const state = stateFrom(given);
        const used = new Set(state.members.filter((one) => one.state === "used").map(({ sandbox }) => sandbox));
        const { actions } = planSet(state);
        for (const { sandbox } of [...of(actions, "retire"), ...of(actions, "remove")]) {
          expect(used.has(sandbox)).toBe(false);
        }
      }),
    );
  });

  it("never creates more than are missing or allowed at a time, and never creates and deletes in one plan", () => {
    fc.assert(
      fc.property(world, (given) => {
        const state = stateFrom(given);
        const { actions, status } = planSet(state);
        const made = created(actions);
        const { scale, update } = state.bounds as { scale: number; update: number };
        // Also a share of few replicas is none.
        const surge = update === 0 ? Math.ceil(given.replicas / 5) : 0;
        expect(made).toBeLessThanOrEqual(Math.max(0, given.replicas + surge - status.replicas));
        if (made > 0) {
          const creating = count(state.members, "creating") + given.unseen;
          expect(made + creating).toBeLessThanOrEqual(scale);
          expect(of(actions, "retire")).toEqual([]);
        }
      }),
    );
  });

  it("keeps the minimum number of available sandboxes, unless replicas itself is lower", () => {
    fc.assert(
      fc.property(world, (given) => {
        const state = stateFrom(given);
        const { actions } = planSet(state);
        const before = count(state.members, "available");
        const taken = of(actions, "retire").filter(({ sandbox }) =>
          state.members.some((one) => one.sandbox === sandbox && one.state === "available"),
        ).length;
        const minimum = Math.max(0, given.replicas - (state.bounds as { update: number }).update);
        const total = before + count(state.members, "creating") + given.unseen;
        // With more sandboxes than replicas even without the new ones, some are deleted despite the minimum.
        if (taken > 0 && total - given.replicas < taken) expect(before - taken).toBeGreaterThanOrEqual(minimum);
      }),
    );
  });

  it.each([1, 2, 5, 10])("keeps ready sandboxes of a set of %d by default while no new one starts", (replicas) => {
    const all = Array.from({ length: replicas }, (_, n) =>
      memberFrom({ kind: "available", old: true, ageSeconds: n }, n),
    );
    let members = all;
    for (let step = 0; step < 10; step++) {
      const { actions } = planSet(stateOf({ replicas }, members));
      const retired = new Set(of(actions, "retire").map(({ sandbox }) => sandbox.metadata.name));
      const fresh = Array.from({ length: created(actions) }, (_, n) =>
        memberFrom({ kind: "starting", old: false, ageSeconds: 0 }, 100 * (step + 1) + n),
      );
      members = [...members.filter(({ sandbox }) => !retired.has(sandbox.metadata.name)), ...fresh];
    }
    const available = members.filter(({ state }) => state === "available").length;
    expect(available).toBe(replicas === 1 ? 1 : replicas - Math.ceil(replicas / 5));
  });

  it("deletes nothing until the cache shows all its own actions", () => {
    fc.assert(
      fc.property(world, (given) => {
        const { actions } = planSet(stateFrom(given));
        if (given.unseen > 0 || given.deletionsUnseen) expect(of(actions, "retire")).toEqual([]);
      }),
    );
  });

  it("converges to replicas available sandboxes of the current revision, and never below the minimum", () => {
    fc.assert(
      fc.property(world, fc.infiniteStream(fc.boolean()), (given, chance) => {
        let state = stateFrom({ ...given, unseen: 0, deletionsUnseen: false });
        const minimum = Math.max(0, given.replicas - (state.bounds as { update: number }).update);
        let number = 100;
        for (let round = 0; round < 200; round++) {
          const { actions } = planSet(state);
          const otherActions = actions.filter((action) => action.do !== "writeTemplate");
          const creating = state.members.filter((one) => one.state === "creating");
          if (otherActions.length === 0 && creating.length === 0) break;
          const deleted = new Set([...of(actions, "retire"), ...of(actions, "remove")].map(({ sandbox }) => sandbox));
          const before = count(state.members, "available");
          const kept = state.members.filter(({ sandbox }) => !deleted.has(sandbox));
          if (before >= minimum) expect(count(kept, "available")).toBeGreaterThanOrEqual(Math.min(before, minimum));
          const grown = kept.map((one) => {
            const becomesAvailable =
              one.state === "creating" && (chance.next().value === true || otherActions.length === 0);
            const hash = one.revisionHash !== present;
            return becomesAvailable ? memberFrom({ kind: "available", old: hash, ageSeconds: 0 }, ++number) : one;
          });
          const fresh = Array.from({ length: created(actions) }, () =>
            memberFrom({ kind: "creating", old: false, ageSeconds: 0 }, ++number),
          );
          state = { ...state, members: [...grown, ...fresh] };
        }
        const available = state.members.filter((one) => one.state === "available");
        expect(available.length).toBe(given.replicas);
        expect(available.every(({ revisionHash }) => revisionHash === present)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it("deletes in the order of OpenKruise Agents: old, Pending, not ready, others, the oldest first", () => {
    const shapes: Shape[] = [
      { kind: "available", old: false, ageSeconds: 1 },
      { kind: "available", old: false, ageSeconds: 9 },
      { kind: "starting", old: false, ageSeconds: 1 },
      { kind: "creating", old: false, ageSeconds: 1 },
      { kind: "available", old: true, ageSeconds: 1 },
    ];
    const deletedAt = (replicas: number, maxUnavailable: number) =>
      of(
        planSet(stateOf({ replicas, updateStrategy: { maxUnavailable } }, shapes.map(memberFrom))).actions,
        "retire",
      ).map(({ sandbox }) => sandbox.metadata.name);
    expect(deletedAt(0, 1)).toEqual(["s4", "s3", "s2", "s1", "s0"]);
    expect(deletedAt(4, 4)).toEqual(["s4"]);
    // Three are available, and three is the minimum: the old one is kept while others can be deleted.
    expect(deletedAt(4, 1)).toEqual(["s3"]);
    expect(deletedAt(2, 1)).toEqual(["s4", "s3", "s2"]);
  });

  it("removes ended sandboxes and those locked by an earlier controller, whatever else is wrong", () => {
    const members = (["dead", "victim"] as const).map((kind, index) =>
      memberFrom({ kind, old: false, ageSeconds: 1 }, index),
    );
    expect(of(planSet(stateOf({}, members, { deletionsUnseen: true })).actions, "remove")).toHaveLength(2);
  });
});

describe("after failures", () => {
  const failing = (more: Partial<SetState["backoff"]>) => ({
    ...quietBackoff,
    inARow: 3,
    problem: undefined,
    lastAt: now,
    nextAt: new Date("2030-01-01T01:00:04Z"),
    message: "s0: it broke",
    ...more,
  });

  it("creates nothing during a pause, reports its end and cause, and requeues", () => {
    const plan = planSet(stateOf({}, [], { backoff: failing({ waitMilliseconds: 4_000 }) }));
    expect(created(plan.actions)).toBe(0);
    expect(plan.requeueAfterMilliseconds).toBe(4_000);
    expect(plan.status.conditions?.[0]).toMatchObject({
      status: "False",
      reason: "StartFailing",
      message:
        "3 times in a row a sandbox ended before it was claimed, or could not be created; the next attempt is at " +
        "2030-01-01T01:00:04Z. Correct the template to retry immediately. The last failure: s0: it broke",
    });
    expect(plan.transitions).toMatchObject([{ type: "Warning", reason: "StartFailing" }]);
  });

  it("tries one sandbox after the pause, and two more for each that becomes available", () => {
    const createdWith = (...shapes: Shape[]) =>
      created(planSet(stateOf({ replicas: 20 }, shapes.map(memberFrom), { backoff: failing({}) })).actions);
    expect(createdWith()).toBe(1);
    expect(createdWith({ kind: "creating", old: false, ageSeconds: 0 })).toBe(0);
    expect(createdWith({ kind: "available", old: false, ageSeconds: 0 })).toBe(3);
    // A sandbox that became available before the failure does not count.
    expect(createdWith({ kind: "available", old: false, ageSeconds: 60 })).toBe(1);
  });
});

describe("materialised revisions", () => {
  const written = (hash: string, second: number, marked = false) => ({
    apiVersion,
    kind: "SandboxTemplate" as const,
    spec: {},
    metadata: {
      ...meta(`pool-${hash}`),
      creationTimestamp: `2030-01-01T00:00:${String(second).padStart(2, "0")}Z`,
      ...(marked && { annotations: { "agents.kruise.io/cleanup-candidate": "true" } }),
    },
  });

  it("writes a revision once, and marks it when it is unneeded and ten are younger", () => {
    expect(of(planSet(stateOf({}, [])).actions, "writeTemplate")).toHaveLength(1);
    const templates = [written(present, 0), ...Array.from({ length: 13 }, (_, at) => written(`h${at}`, at + 1))];
    const members = [memberFrom({ kind: "available", old: true, ageSeconds: 1 }, 1)];
    members[0]!.revisionHash = "h0";
    const { actions } = planSet(stateOf({}, members, { templates }));
    expect(of(actions, "writeTemplate")).toEqual([]);
    expect(of(actions, "markTemplate").map(({ template: { metadata } }) => metadata.name)).toEqual([
      "pool-h1",
      "pool-h2",
    ]);
  });

  it("removes the mark when a revision is needed again", () => {
    const [mark] = of(planSet(stateOf({}, [], { templates: [written(present, 0, true)] })).actions, "markTemplate");
    expect(mark).toMatchObject({ candidate: false });
  });
});

describe("a set whose sandboxes have an earlier engine", () => {
  const needsReplacement = (kind: Shape["kind"], index: number, old = false): Member => ({
    ...memberFrom({ kind, old, ageSeconds: index }, index),
    needsReplacement: true,
  });

  it("creates new sandboxes first, whatever maxUnavailable allows, and deletes an earlier one for each that is ready", () => {
    const spec = { replicas: 5, updateStrategy: { maxUnavailable: "100%" } };
    const before = [0, 1, 2, 3, 4].map((index) => needsReplacement("available", index));
    const plan = planSet(stateOf(spec, before));
    expect([created(plan.actions), of(plan.actions, "retire").length]).toEqual([1, 0]);
    expect(plan.status).toMatchObject({ availableReplicas: 5, updatedReplicas: 0 });
    const starting = [...before, memberFrom({ kind: "starting", old: false, ageSeconds: 0 }, 5)];
    expect(planSet(stateOf(spec, starting)).actions.filter((one) => one.do !== "writeTemplate")).toEqual([]);
    const more = [...before, memberFrom({ kind: "available", old: false, ageSeconds: 0 }, 5)];
    const next = planSet(stateOf(spec, more));
    expect([created(next.actions), of(next.actions, "retire").length]).toEqual([0, 1]);
    expect(of(next.actions, "retire")[0]?.sandbox.metadata.name).toBe("s4");
  });

  it("rolls in the same way when the memory that fills it was captured again", () => {
    const spec = { replicas: 1, updateStrategy: { maxUnavailable: "100%" } };
    const before = memberFrom({ kind: "available", old: true, ageSeconds: 0 }, 0);
    const plan = (sameContent: string[]) => planSet(stateOf(spec, [before], { sameContent: new Set(sameContent) }));
    const acts = ({ actions }: ReturnType<typeof planSet>) => [created(actions), of(actions, "retire").length];
    expect(acts(plan([before.revisionHash ?? ""]))).toEqual([1, 0]);
    expect(acts(plan([]))).toEqual([0, 1]);
  });

  it("rolls as the update strategy says when the revision changes too", () => {
    const spec = { replicas: 5, updateStrategy: { maxUnavailable: 2 } };
    const plan = planSet(
      stateOf(
        spec,
        [0, 1, 2, 3, 4].map((index) => needsReplacement("available", index, true)),
      ),
    );
    expect([created(plan.actions), of(plan.actions, "retire").length]).toEqual([0, 2]);
  });
});
