import { expect, it } from "vitest";
import { Checkpoint } from "../../../api/kinds/checkpoint.ts";
import { Sandbox } from "../../../api/kinds/sandbox.ts";
import { apiVersion } from "../../../api/schema/kind.ts";
import { eventsOf, matches, newEvents } from "./event-routes.ts";

const uid = "11111111-2222-4333-8444-555555555555";
const time = (second: number): string => `2026-01-01T00:00:0${second}Z`;
const metadata = { namespace: "team-a", resourceVersion: "1", creationTimestamp: time(0) };
const annotations = { "agents.kruise.io/owner": "team-a/agent" };

function sandbox(conditions: object[], more: object = {}, phase = "Running"): Sandbox {
  return Sandbox.parse({
    apiVersion,
    kind: "Sandbox",
    metadata: { ...metadata, name: "dev", uid, annotations, ...more },
    spec: { paused: true, template: { spec: { containers: [{ name: "main", image: "python" }] } } },
    status: { phase, conditions },
  });
}

const condition = (type: string, status: string, second: number, reason = "Because") => ({
  type,
  status,
  reason,
  message: "",
  lastTransitionTime: time(second),
});

function checkpoint(name: string, at: number, { labels = {}, ...status }: Record<string, unknown>): Checkpoint {
  return Checkpoint.parse({
    apiVersion,
    kind: "Checkpoint",
    metadata: { ...metadata, name, uid: `${name}-uid`, creationTimestamp: time(at), labels, annotations },
    spec: { sandboxName: "dev" },
    status,
  });
}

function events(found: Sandbox, checkpoints: Checkpoint[] = []) {
  return eventsOf({ known: { checkpointsOf: () => checkpoints }, sandboxes: { current: () => undefined } }, found);
}

const summary = (found: Sandbox, checkpoints?: Checkpoint[]) =>
  events(found, checkpoints).map(({ action, outcome, occurred_at: at }) => `${at.slice(18, 19)} ${action} ${outcome}`);

it("reports what conditions and checkpoints record, oldest first", () => {
  const found = sandbox([condition("SandboxResumed", "True", 6), condition("Ready", "True", 1)]);
  const taken = checkpoint("taken", 3, { phase: "Succeeded", completionTime: time(4), checkpointId: "c-1" });
  const failed = checkpoint("failed", 5, { phase: "Failed", completionTime: time(5), message: "no room" });
  const purpose = (is: string) => checkpoint(is, 5, { labels: { "ramet.dev/purpose": is }, phase: "Succeeded" });
  const earlier = checkpoint("earlier", 2, { labels: { "ramet.dev/source-uid": "other" }, phase: "Creating" });
  const version = checkpoint("version", 5, { labels: { "ramet.dev/source-of": "tools-3" }, phase: "Succeeded" });
  const others = [purpose("pause"), purpose("automatic"), purpose("step"), version, earlier];
  expect(summary(found, [failed, taken, ...others]).toSorted()).toEqual([
    "0 sandbox.create succeeded",
    "1 sandbox.start succeeded",
    "3 sandbox.rootfs_snapshot.create accepted",
    "4 sandbox.rootfs_snapshot.create succeeded",
    "5 sandbox.rootfs_snapshot.create accepted",
    "5 sandbox.rootfs_snapshot.create failed",
    "6 sandbox.resume succeeded",
  ]);
  const captured = events(found, [taken]).filter(({ resource }) => resource.type === "sandbox_rootfs_snapshot");
  expect(captured.map(({ resource }) => resource.id)).toEqual(["c-1", "c-1"]);
  expect(new Set(captured.map(({ operation_id: id }) => id)).size).toBe(1);
  expect(captured[0]?.actor).toEqual({ kind: "api_key", id: "team-a/agent" });
});

it("tells a pause that has begun from one that has failed, and reports a deletion", () => {
  expect(summary(sandbox([condition("SandboxPaused", "False", 2, "CreateCheckpoint")]))).toContain(
    "2 sandbox.pause accepted",
  );
  expect(summary(sandbox([condition("SandboxPaused", "False", 2, "CheckpointFailed")]))).toContain(
    "2 sandbox.pause failed",
  );
  expect(summary(sandbox([], { deletionTimestamp: time(7) })).at(-1)).toBe("7 sandbox.delete accepted");
});

it("reports a failed capture as failed also while it is removed, and a removed one that succeeded as that", () => {
  const ended = { phase: "Terminating", completionTime: time(4) };
  const failed = checkpoint("failed", 3, { ...ended, message: "no room" });
  const ids = (phase: string) => events(sandbox([]), [{ ...failed, status: { ...failed.status, phase } }]);
  expect(ids("Terminating")).toEqual(ids("Failed"));
  expect(summary(sandbox([]), [failed]).at(-1)).toBe("4 sandbox.rootfs_snapshot.create failed");
  expect(summary(sandbox([]), [checkpoint("taken", 3, ended)]).at(-1)).toBe(
    "4 sandbox.rootfs_snapshot.create succeeded",
  );
});

it("reports a sandbox that is not ready as a start only while it starts", () => {
  const starting = [condition("Ready", "False", 1, "SandboxNotReady")];
  for (const phase of ["Pending", "Resuming"])
    expect(summary(sandbox(starting, {}, phase))).toContain("1 sandbox.start accepted");
  for (const phase of ["Running", "Paused", "Failed", "Succeeded"])
    expect(summary(sandbox(starting, {}, phase))).toEqual(["0 sandbox.create succeeded"]);
});

it("begins with the claim of a sandbox that was ready before it", () => {
  const claimed = { annotations: { ...annotations, "agents.kruise.io/claim-timestamp": time(5) } };
  const happened = summary(sandbox([condition("Ready", "True", 1)], claimed));
  expect(happened).toEqual(["5 sandbox.create succeeded", "5 sandbox.start succeeded"]);
  const same = summary(sandbox([condition("SandboxPaused", "True", 0)]), [checkpoint("taken", 0, {})]);
  expect(same[0]).toBe("0 sandbox.create succeeded");
});

it("follows events from the request on, of which several have the same second", async () => {
  const all = events(sandbox([condition("Ready", "True", 1)]));
  const now = [...all];
  const poll = newEvents(() => now, all);
  expect(await poll()).toEqual([]);
  const [late] = events(sandbox([]), [checkpoint("taken", 1, {})]).slice(-1);
  now.push(late!);
  expect(await poll()).toEqual([late]);
  expect(await poll()).toEqual([]);
});

it("repeats the second of the cursor in a watch, whose events have no milliseconds, and not in a list", () => {
  const all = events(sandbox([condition("Ready", "True", 2)]), [checkpoint("taken", 3, {})]);
  const asked = (query: Parameters<typeof matches>[1]) =>
    all.filter((event) => matches(event, query)).map(({ occurred_at: at }) => at.slice(18, 19));
  const cursor = Date.parse("2026-01-01T00:00:02.500Z");
  const from = { start_time: "2026-01-01T00:00:02.500Z" };
  expect([asked({ cursor, watch: true }), asked({ ...from, watch: true })]).toEqual(Array(2).fill(["2", "3"]));
  expect([asked({ cursor }), asked(from)]).toEqual(Array(2).fill(["3"]));
  expect(asked({ cursor: Date.parse(time(2)) })).toEqual(["3"]);
  expect(asked({ end_time: time(2) })).toEqual(["0", "2"]);
  expect(asked({ action: "sandbox.start", cursor: 0 })).toEqual(["2"]);
});

it("gives an event the same id each time, and each transition another one", () => {
  const ids = (second: number) => events(sandbox([condition("Ready", "True", second)])).map(({ event_id: id }) => id);
  expect(ids(1)).toEqual(ids(1));
  expect(new Set([...ids(1), ...ids(2)]).size).toBe(3);
});
