import { expect, it } from "vitest";
import { metadata } from "../../../test/setup/volume-samples.ts";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { Sandbox } from "../../api/kinds/sandbox.ts";
import { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import type { Departure } from "../cluster/departures.ts";
import { departureOf, rollbackOf } from "./gather.ts";

const sandbox = Sandbox.parse({ apiVersion: "agents.kruise.io/v1alpha1", kind: "Sandbox", metadata, spec: {} });
const pod = (more: object = {}): Pod =>
  Pod.parse({ metadata: { ...metadata, ...more }, spec: { containers: [{ name: "main", image: "cell" }] } });
const turn: Departure = { turn: "now", cause: "NodeCordoned", mark: "it is cordoned" };

/** Asks with a read of volumes that lasts until the test ends it. */
function asking(of: Pod, own = sandbox) {
  const answer = Promise.withResolvers<Departure | undefined>();
  const clock = new ManualClock();
  const requeued: string[] = [];
  const departures = { of: () => answer.promise } as unknown as Parameters<typeof departureOf>[2]["departures"];
  const found = departureOf(own, of, { departures, clock, enqueue: (key) => requeued.push(key) });
  return { answer, clock, requeued, found };
}

it("captures a sandbox whose Pod is being ended without waiting for its volumes to be read", async () => {
  const { found } = asking(pod({ deletionTimestamp: "2030-01-01T00:00:00Z" }));
  expect(await found).toBeUndefined();
});

it("asks where a sandbox may go whose Pod others have announced to end, when its capture has failed and nobody has deleted it", async () => {
  const conditions = [{ type: "DisruptionTarget", status: "True", reason: "PreemptionByScheduler" }];
  const announced = Pod.parse({ ...pod(), status: { conditions } });
  expect(await asking(announced).found).toBeUndefined();
  const disruption = { cause: "Preempted", at: metadata.creationTimestamp, outcome: "Withdrawn", podUID: "u" };
  const { answer, found } = asking(announced, { ...sandbox, status: { ramet: { disruption } } });
  answer.resolve(turn);
  expect(await found).toEqual(turn);
});

it("continues without the answer after a second, and plans the sandbox again when it is there", async () => {
  const { answer, clock, requeued, found } = asking(pod());
  clock.advance(1_000);
  expect(await found).toEqual({ turn: "later" });
  expect(requeued).toEqual([]);
  answer.resolve(turn);
  await answer.promise;
  await expect.poll(() => requeued).toEqual(["t/a"]);
});

it("waits no longer than the answer, and fails nothing else with it", async () => {
  const fast = asking(pod());
  fast.answer.resolve(turn);
  expect(await fast.found).toEqual(turn);
  expect(fast.clock.waits).toEqual([]);
  const failing = asking(pod());
  failing.answer.reject(new RametError("Unavailable", "the API server is away", { retryable: true }));
  expect(await failing.found).toEqual({ turn: "later" });
});

it("captures a sandbox whose Pod is being ended before a rollback whose data cannot be read", async () => {
  const ending = pod({ deletionTimestamp: "2030-01-01T00:00:00Z" });
  const away = () =>
    Promise.reject<undefined>(new RametError("Unavailable", "the API server is away", { retryable: true }));
  const clock = new ManualClock();
  expect(await rollbackOf(ending, away(), clock)).toBeUndefined();
  const slow = rollbackOf(ending, new Promise(() => undefined), clock);
  clock.advance(1_000);
  expect(await slow).toBeUndefined();
  await expect(rollbackOf(pod(), away(), clock)).rejects.toMatchObject({ code: "Unavailable" });
});
