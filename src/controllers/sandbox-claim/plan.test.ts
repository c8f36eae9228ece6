import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RametError } from "../../base/errors.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { mostAtOnce, planClaim } from "./plan.ts";
import type { ClaimState, MemberProgress } from "./state.ts";

const apiVersion = "agents.kruise.io/v1alpha1";
const now = new Date("2030-01-01T00:00:00Z");
const at = (seconds: number) => new Date(now.getTime() + seconds * 1000);
const meta = (name: string) => ({
  name,
  namespace: "t",
  uid: `uid-${name}`,
  resourceVersion: "1",
  creationTimestamp: now.toISOString(),
});

const progresses = fc.constantFrom<MemberProgress>(
  { is: "ready" },
  { is: "waiting", slowFrom: at(5), why: { code: "PodStarting", cause: "it is not ready" } },
  { is: "waiting", slowFrom: at(0), why: { code: "PodStarting", cause: "it is not ready" } },
  { is: "failed", why: { code: "Failed", cause: "it is Failed" } },
);
const members = fc.array(progresses, { maxLength: 6 }).map((all) =>
  all.map((progress, n) => ({
    sandbox: Sandbox.parse({ apiVersion, kind: "Sandbox", metadata: meta(`s${n}`), spec: {} }),
    progress,
  })),
);
const states: fc.Arbitrary<ClaimState> = fc
  .record({
    replicas: fc.integer({ min: 1, max: 120 }),
    delivered: fc.array(fc.constantFrom("s0", "s1", "earlier"), { maxLength: 1 }),
    phase: fc.constantFrom(undefined, "Claiming", "Completed"),
    keep: fc.boolean(),
    members,
    underWayCount: fc.integer({ min: 0, max: 3 }),
    problem: fc.option(
      fc.constant({
        reason: "SandboxSetNotFound",
        why: { code: "NotFound", cause: "no such set" },
        message: "no such set",
      }),
      { nil: undefined },
    ),
    error: fc.option(fc.constant(new RametError("Forbidden", "no")), { nil: undefined }),
    pauseMilliseconds: fc.constantFrom(0, 500),
    stock: fc.integer({ min: 0, max: 3 }),
    startedAt: fc.constantFrom(at(0), at(-59), at(-60), at(-600)),
    seenAt: fc.constantFrom(at(0), at(-4), at(-5), at(-600)),
    slowInMilliseconds: fc.constantFrom(0, 0.1, 500),
  })
  .map(({ replicas, delivered, phase, keep, underWayCount, members: all, ...rest }) => ({
    ...rest,
    members: all,
    claim: SandboxClaim.parse({
      apiVersion,
      kind: "SandboxClaim",
      metadata: meta("c"),
      spec: { templateName: "set", replicas, reserveFailedSandbox: keep },
      status: {
        ...(phase && { phase }),
        ...(delivered.length > 0 && { ramet: { sandboxes: delivered } }),
        ...(phase === "Completed" && { completionTime: at(-10).toISOString() }),
      },
    }),
    used: new Set(all.map((_, n) => n)),
    underWay: Array.from({ length: underWayCount }, (_, n) => 100 + n),
    now,
  }));
const deliveredBefore = ({ claim }: ClaimState) => claim.status?.ramet?.sandboxes ?? [];
const startsOf = (state: ClaimState) => planClaim(state).actions.filter((action) => action.do === "startClaim");
const isWaiting = ({ progress }: ClaimState["members"][number]) => progress.is === "waiting";
const isCompleted = ({ claim }: ClaimState) => claim.status?.phase === "Completed";

describe("planClaim", () => {
  it("plans only statuses that the API server accepts", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status } = planClaim(state);
        expect(() => SandboxClaim.parse({ ...state.claim, status })).not.toThrow();
      }),
    );
  });

  it("never starts more attempts than sandboxes are missing or slow, and never reuses an ordinal", () => {
    fc.assert(
      fc.property(states, (state) => {
        const starts = startsOf(state);
        const before = deliveredBefore(state);
        const open = state.members.filter(({ sandbox }) => !before.includes(sandbox.metadata.name));
        const ready = open.filter(({ progress }) => progress.is === "ready");
        const waiting = open.filter(({ progress }) => progress.is === "waiting");
        const names = new Set([...before, ...ready.map(({ sandbox }) => sandbox.metadata.name)]);
        const slow = waiting.filter(({ progress }) => progress.is === "waiting" && progress.slowFrom <= now);
        const creating = starts.filter(({ onlyStock }) => !onlyStock);
        const others = names.size + waiting.length + state.underWay.length;
        if (creating.length > 0) expect(others + creating.length).toBeLessThanOrEqual(state.claim.spec.replicas);
        if (starts.length > 0) {
          expect(others + starts.length).toBeLessThanOrEqual(state.claim.spec.replicas + slow.length);
        }
        expect(starts.length - creating.length).toBeLessThanOrEqual(state.stock);
        const ordinals = starts.map((action) => action.ordinal);
        expect(new Set(ordinals).size).toBe(ordinals.length);
        expect(ordinals.some((ordinal) => state.used.has(ordinal) || state.underWay.includes(ordinal))).toBe(false);
        expect(starts.length + state.underWay.length).toBeLessThanOrEqual(Math.max(mostAtOnce, state.underWay.length));
      }),
    );
  });

  it("deletes no slow sandbox of a claim that continues", () => {
    fc.assert(
      fc.property(states, (state) => {
        const plan = planClaim(state);
        if (plan.status?.phase === "Completed") return;
        const removed = plan.actions.flatMap((action) => (action.do === "deleteSandbox" ? [action.sandbox] : []));
        const waiting = state.members.filter(isWaiting).map(({ sandbox }) => sandbox);
        expect(removed.filter((sandbox) => waiting.includes(sandbox))).toEqual([]);
      }),
    );
  });

  it("limits how many sandboxes of one claim exist, however many fail", () => {
    fc.assert(
      fc.property(states, fc.integer({ min: 0, max: 300 }), (state, kept) => {
        const used = new Set(Array.from({ length: state.used.size + kept }, (_, n) => 1_000 + n));
        const starts = startsOf({ ...state, used });
        if (starts.length === 0) return;
        const all = used.size + state.underWay.length + starts.length;
        expect(all).toBeLessThanOrEqual(2 * state.claim.spec.replicas + 2);
      }),
    );
  });

  it("ends at its time-out, whatever its sandboxes wait for", () => {
    fc.assert(
      fc.property(states, (state) => {
        if (isCompleted(state)) return;
        const deadline = state.startedAt.getTime() + 60_000;
        const plan = planClaim(state);
        const seenAt = state.seenAt.getTime();
        if (deadline <= seenAt && seenAt > now.getTime() - 5_000) return;
        if (deadline <= now.getTime()) {
          const isOver = plan.status?.phase === "Completed";
          expect(isOver || state.underWay.length > 0).toBe(true);
        } else if (plan.status?.phase !== "Completed" && plan.requeueAfterMilliseconds !== undefined) {
          expect(plan.requeueAfterMilliseconds).toBeLessThanOrEqual(deadline - now.getTime());
        }
      }),
    );
  });

  it("takes ready sandboxes for a claim that timed out while no controller ran", () => {
    const spec = { templateName: "set", replicas: 3 };
    const claim = SandboxClaim.parse({ apiVersion, kind: "SandboxClaim", metadata: meta("c"), spec });
    const none = { members: [], underWay: [], used: new Set<number>(), problem: undefined, error: undefined };
    const times = { startedAt: at(-600), seenAt: now, pauseMilliseconds: 0, slowInMilliseconds: 0, now };
    const state: ClaimState = { claim, ...none, ...times, stock: 2 };
    expect(startsOf(state)).toMatchObject([{ onlyStock: true }, { onlyStock: true }]);
    const reasonOf = (changed: Partial<ClaimState>) =>
      planClaim({ ...state, ...changed }).status?.conditions?.find(({ type }) => type === "Completed")?.reason;
    expect(reasonOf({ stock: 0 })).toBe("TimeoutReached");
    expect(reasonOf({ seenAt: at(-5) })).toBe("TimeoutReached");
  });

  it("completes once, with the sandboxes that it has, and only when no attempt is under way", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status } = planClaim(state);
        if (status?.phase !== "Completed") return;
        expect(isCompleted(state)).toBe(false);
        const isWhole = (status.claimedReplicas ?? 0) >= state.claim.spec.replicas;
        expect(state.underWay).toEqual([]);
        expect(status.claimedReplicas ?? 0).toBeGreaterThanOrEqual(deliveredBefore(state).length);
        expect(status.ramet?.sandboxes ?? []).toHaveLength(status.claimedReplicas ?? 0);
        const reason = status.conditions?.find(({ type }) => type === "Completed")?.reason;
        expect(reason === "AllReplicasClaimed").toBe(isWhole);
        expect(status.conditions?.some(({ type }) => type === "TimedOut")).toBe(reason === "TimeoutReached");
      }),
    );
  });

  it("keeps every delivered sandbox, and leaves no other sandbox claimed", () => {
    fc.assert(
      fc.property(states, (state) => {
        const plan = planClaim(state);
        const removed = plan.actions.flatMap((action) =>
          action.do === "deleteSandbox" || action.do === "keepFailed" ? [action.sandbox.metadata.name] : [],
        );
        for (const { sandbox, progress } of state.members) {
          const { name } = sandbox.metadata;
          const isOver = plan.status?.phase === "Completed";
          const delivered = plan.status?.ramet?.sandboxes ?? deliveredBefore(state);
          if (delivered.includes(name)) expect(removed).not.toContain(name);
          else if (isOver && progress.is !== "failed") expect(removed).toContain(name);
        }
        if (isCompleted(state)) expect(removed).toEqual([]);
      }),
    );
  });

  it("keeps and reports a delivered sandbox that is not ready when the claim times out", () => {
    const waiting: MemberProgress = {
      is: "waiting",
      slowFrom: at(5),
      why: { code: "PodStarting", cause: "it is not ready" },
    };
    const sandbox = (name: string) => Sandbox.parse({ apiVersion, kind: "Sandbox", metadata: meta(name), spec: {} });
    const { actions, status } = planClaim({
      claim: SandboxClaim.parse({
        apiVersion,
        kind: "SandboxClaim",
        metadata: meta("c"),
        spec: { templateName: "set", replicas: 3 },
        status: { phase: "Claiming", claimedReplicas: 1, ramet: { sandboxes: ["resuming"] } },
      }),
      problem: undefined,
      members: [
        { sandbox: sandbox("resuming"), progress: waiting },
        { sandbox: sandbox("ready"), progress: { is: "ready" } },
        { sandbox: sandbox("late"), progress: waiting },
      ],
      underWay: [],
      used: new Set([0, 1, 2]),
      error: undefined,
      pauseMilliseconds: 0,
      stock: 0,
      startedAt: at(-60),
      seenAt: at(-60),
      slowInMilliseconds: 0,
      now,
    });
    expect(actions).toEqual([{ do: "deleteSandbox", sandbox: sandbox("late") }]);
    expect(status).toMatchObject({
      phase: "Completed",
      claimedReplicas: 2,
      ramet: { sandboxes: ["resuming", "ready"] },
    });
    expect(status?.message).toContain("2 of 3 claimed: timed out after 1m");
    expect(status?.message).toContain("the sandbox late is not available");
  });

  it("takes a ready sandbox for a slow one, and then removes the slow one", () => {
    const slow: MemberProgress = {
      is: "waiting",
      slowFrom: at(0),
      why: { code: "PodStarting", cause: "it is not ready" },
    };
    const sandbox = (name: string) => Sandbox.parse({ apiVersion, kind: "Sandbox", metadata: meta(name), spec: {} });
    const metadata = { apiVersion, kind: "SandboxClaim", metadata: meta("c") };
    const state: ClaimState = {
      claim: SandboxClaim.parse({ ...metadata, spec: { templateName: "set" } }),
      problem: undefined,
      members: [{ sandbox: sandbox("slow"), progress: slow }],
      underWay: [],
      used: new Set([0]),
      error: undefined,
      pauseMilliseconds: 0,
      stock: 0,
      startedAt: now,
      seenAt: now,
      slowInMilliseconds: 0,
      now,
    };
    expect(planClaim(state)).toMatchObject({ actions: [], requeueAfterMilliseconds: 5_000 });
    expect(startsOf({ ...state, stock: 3 })).toMatchObject([{ ordinal: 1, onlyStock: true }]);
    const ready = { sandbox: sandbox("ready"), progress: { is: "ready" as const } };
    const replaced = planClaim({ ...state, members: [...state.members, ready] });
    expect(replaced.actions).toEqual([{ do: "deleteSandbox", sandbox: sandbox("slow") }]);
    expect(replaced.status?.ramet?.sandboxes).toEqual(["ready"]);
  });

  it("names the failed sandboxes if no more are created because of them", () => {
    fc.assert(
      fc.property(states, (state) => {
        const used = new Set(Array.from({ length: 400 }, (_, n) => n));
        const { status } = planClaim({ ...state, members: [], problem: undefined, error: undefined, used });
        // One may be delivered, and has not failed.
        const failed = 400 - deliveredBefore(state).length;
        if (status?.phase === "Claiming")
          expect(status.message).toContain(`${failed} sandboxes of the claim have failed`);
      }),
    );
  });

  it("always makes progress: it acts, completes, waits for an attempt, or requeues", () => {
    fc.assert(
      fc.property(states, (state) => {
        const plan = planClaim(state);
        const hasNextStep =
          plan.actions.length > 0 || plan.status?.phase === "Completed" || plan.requeueAfterMilliseconds !== undefined;
        expect(hasNextStep || state.underWay.length > 0 || isCompleted(state)).toBe(true);
      }),
    );
  });

  it("requeues a claim without a status, so that it reports what it waits for once it is slow", () => {
    fc.assert(
      fc.property(states, (state) => {
        const { status, actions, requeueAfterMilliseconds } = planClaim(state);
        if (state.claim.status?.phase !== undefined || state.slowInMilliseconds === 0) return;
        if (status !== undefined || actions.some((action) => action.do === "stopClaims")) return;
        expect(requeueAfterMilliseconds).toBeLessThanOrEqual(state.slowInMilliseconds);
      }),
      // Claims that timed out while no controller ran are rare among these states.
      { numRuns: 5_000 },
    );
  });

  it("deletes the claim after its TTL, and never if the TTL is negative", () => {
    const completed = (ttl: string) =>
      planClaim({
        claim: SandboxClaim.parse({
          apiVersion,
          kind: "SandboxClaim",
          metadata: meta("c"),
          spec: { templateName: "set", ttlAfterCompleted: ttl },
          status: { phase: "Completed", completionTime: at(-10).toISOString() },
        }),
        problem: undefined,
        members: [],
        underWay: [],
        used: new Set(),
        error: undefined,
        pauseMilliseconds: 0,
        stock: 0,
        startedAt: now,
        seenAt: now,
        slowInMilliseconds: 500,
        now,
      });
    expect(completed("10s").actions).toEqual([{ do: "deleteClaim" }]);
    expect(completed("11s")).toEqual({ actions: [], requeueAfterMilliseconds: 1_000 });
    expect(completed("-1s")).toEqual({ actions: [] });
  });
});
