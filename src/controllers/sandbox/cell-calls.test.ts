import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import { ObjectStore } from "../../kube/store.ts";
import { CellCalls } from "./cell-calls.ts";
import type { EgressOutcome, SandboxState } from "./state.ts";

const meta = (uid: string) => ({
  name: "a",
  namespace: "n",
  uid,
  resourceVersion: "1",
  creationTimestamp: "2026-01-01T00:00:00Z",
});
const pod = (uid: string): Pod =>
  Pod.parse({
    apiVersion: "v1",
    kind: "Pod",
    metadata: meta(uid),
    spec: { containers: [{ name: "main", image: "cell" }] },
  });
const sandbox = (uid: string, request?: string, phase = "Pending"): Sandbox =>
  Sandbox.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Sandbox",
    metadata: { ...meta(uid), annotations: request === undefined ? {} : { [annotations.initRuntimeRequest]: request } },
    spec: {},
    status: { phase },
  });

const unreachable = new RametError("Unavailable", "connection refused", { retryable: true });
const flush = () => new Promise((resolve) => setImmediate(resolve));

function open() {
  const clock = new ManualClock();
  const store = new ObjectStore<Pod>((error) => {
    throw error;
  });
  const requeued: string[] = [];
  const calls = new CellCalls({ clock, random: () => 0.5, pods: { store }, enqueue: (key) => requeued.push(key) });
  return { clock, store, requeued, calls };
}

/** A start that never ends, an egress policy for an unreachable cell, and a wait for a slow start. */
async function busy() {
  const opened = open();
  const { calls, store } = opened;
  const [owner, own] = [sandbox("s"), pod("p")];
  store.put(own);
  const signals: AbortSignal[] = [];
  calls.of(owner, own);
  calls.slowInMilliseconds(owner);
  calls.pullTimeoutInMilliseconds(owner, true);
  calls.start(owner, own, "start", (signal) => {
    signals.push(signal);
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        reject(new RametError("Canceled", "the Pod is gone"));
      });
    });
  });
  calls.start(owner, own, "egressCall", () => Promise.reject(unreachable));
  await flush();
  expect(calls.of(owner, own)).toMatchObject({
    start: { state: "running", failures: 0 },
    egressCall: { state: "running", failures: 1 },
  });
  opened.requeued.length = 0;
  return { ...opened, owner, own, signals };
}

describe("CellCalls", () => {
  const gone: [string, (opened: Awaited<ReturnType<typeof busy>>) => void][] = [
    [
      "is deleted",
      ({ store, own }) => {
        store.remove(own, true);
      },
    ],
    [
      "is recreated under its name",
      ({ store }) => {
        store.put(pod("q"));
      },
    ],
    [
      "is replaced, before the informer shows it",
      ({ calls, owner }) => {
        calls.of(owner, pod("q"));
      },
    ],
    [
      "is not found any more",
      ({ calls, owner }) => {
        calls.of(owner, undefined);
      },
    ],
    [
      "belongs to a sandbox that was deleted",
      ({ calls }) => {
        calls.forget("n/a");
      },
    ],
    [
      "belongs to a sandbox that was recreated under its name",
      ({ calls }) => {
        calls.of(sandbox("t"), undefined);
      },
    ],
  ];
  it.each(gone)("leaves nothing of a Pod that %s", async (_, end) => {
    const opened = await busy();
    const { calls, clock, owner, own, requeued, signals } = opened;
    end(opened);
    await flush();
    clock.advance(60_000);
    await flush();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect([clock.waits, requeued]).toEqual([[], []]);
    expect(calls.of(owner, own)).toEqual({});
    calls.forget("n/a");
    expect(calls.size).toBe(0);
  });

  it("leaves nothing of a sandbox that is gone, and measures the times of its successor from the beginning", async () => {
    const { calls, clock } = await busy();
    clock.advance(100);
    const successor = sandbox("t");
    expect([calls.slowInMilliseconds(successor), calls.pullTimeoutInMilliseconds(successor, true)]).toEqual([
      500, 180_000,
    ]);
    calls.forget("n/a");
    expect(calls.size).toBe(0);
  });

  it("leaves nothing of a sandbox that was started and is settled", async () => {
    const { calls, owner, own } = await busy();
    calls.settle(stateOf(owner, own), "Pending");
    expect(calls.of(owner, own).start).toBeDefined();
    calls.drop(own, "egressCall");
    calls.settle(stateOf(owner, own), "Running");
    expect(calls.size).toBe(0);
  });

  it("forgets a call to a Pod that was deleted before the call, when the sandbox is reconciled again", async () => {
    const { calls, clock, store } = open();
    store.put(pod("p"));
    store.remove(pod("p"), true);
    calls.start(sandbox("s"), pod("p"), "start", () => Promise.reject(unreachable));
    await flush();
    expect(clock.waits).toHaveLength(1);
    calls.of(sandbox("s"), undefined);
    expect(clock.waits).toEqual([]);
  });

  it("does not end the calls of a Pod when an earlier one of its name is deleted", async () => {
    const { calls, store, requeued } = open();
    calls.start(sandbox("s"), pod("q"), "start", () => Promise.resolve({ phases: {} }));
    store.put(pod("p"));
    store.remove(pod("p"), true);
    await flush();
    expect(calls.of(sandbox("s"), pod("q")).start).toEqual({ state: "done", value: { phases: {} } });
    expect(requeued).toEqual(["n/a"]);
  });

  it("makes a call once for each request, and another one for another request", async () => {
    const { calls } = open();
    const made: string[] = [];
    const adopt = (of: Sandbox, name: string) => {
      calls.start(of, pod("p"), "adoption", () => Promise.resolve({ generation: made.push(name) }));
    };
    const [first, second] = [sandbox("s", `{"envVars":{"A":"1"}}`), sandbox("s", `{"envVars":{"A":"2"}}`)];
    adopt(first, "first");
    adopt(first, "first again");
    await flush();
    expect(calls.of(second, pod("p")).adoption).toBeUndefined();
    adopt(second, "second");
    await flush();
    expect(calls.of(second, pod("p")).adoption).toEqual({ state: "done", value: { generation: 2 } });
    expect(made).toEqual(["first", "second"]);
  });

  it("gives the cell a policy again after a call has ended, and not before", async () => {
    const { calls } = open();
    const answer = Promise.withResolvers<EgressOutcome>();
    const made: string[] = [];
    const give = (digest: string, outcome: Promise<EgressOutcome>) => {
      calls.start(sandbox("s"), pod("p"), "egressCall", () => {
        made.push(digest);
        return outcome;
      });
    };
    give("one", answer.promise);
    give("two", Promise.resolve({ digest: "two" }));
    answer.resolve({ digest: "one" });
    await flush();
    give("three", Promise.resolve({ digest: "three" }));
    await flush();
    expect(made).toEqual(["one", "three"]);
  });
});

function stateOf(owner: Sandbox, own: Pod): SandboxState {
  return { sandbox: owner, pod: own, egress: {}, egressCall: undefined } as unknown as SandboxState;
}
