import { expect, it } from "vitest";
import { Snapshot, SnapshotContent } from "../../kube/volumes/snapshots.ts";
import { isBound, printable, stateOfSnapshot } from "./follow-snapshots.ts";

const meta = { namespace: "a", name: "s", uid: "u", resourceVersion: "1" };
const snapshot = (status?: object, metadata: object = {}) =>
  Snapshot.parse({ metadata: { ...meta, ...metadata }, ...(status && { status }) });
const content = (ref: object, name = "c") =>
  SnapshotContent.parse({
    metadata: { name, uid: "v", resourceVersion: "1" },
    spec: { driver: "d", volumeSnapshotRef: { ...meta, ...ref } },
  });

const bound = { boundVolumeSnapshotContentName: "c" };
const creationTime = "2026-11-26T12:00:00Z";
const error = (message: string) => ({ error: { message } });

it("distinguishes what is captured from what can be restored", () => {
  expect(stateOfSnapshot(snapshot())).toEqual({ state: "pending" });
  expect(stateOfSnapshot(snapshot({ ...bound, readyToUse: false }))).toEqual({ state: "pending" });
  expect(stateOfSnapshot(snapshot({ ...bound, creationTime, readyToUse: false }))).toMatchObject({ state: "captured" });
  expect(stateOfSnapshot(snapshot({ ...bound, creationTime, readyToUse: true }))).toEqual({
    state: "ready",
    capturedAt: creationTime,
    contentName: "c",
  });
  const deleted = snapshot({ ...bound, creationTime, readyToUse: true }, { deletionTimestamp: creationTime });
  expect(stateOfSnapshot(deleted)).toEqual({ state: "deleted" });
});

it("waits for a retry after an error, unless only a change can mend it", () => {
  expect(stateOfSnapshot(snapshot(error("rpc error: code = Internal")))).toMatchObject({ state: "pending" });
  expect(stateOfSnapshot(snapshot(error("cannot find default snapshot class")))).toMatchObject({ state: "blocked" });
  // An old error remains until the data can be restored.
  const uploading = snapshot({ ...bound, creationTime, ...error("rpc error: code = Aborted") });
  expect(stateOfSnapshot(uploading)).toMatchObject({ state: "captured" });
});

it("makes one short line of a driver's message", () => {
  expect(printable(undefined)).toBeUndefined();
  expect(printable("a\nb\u001b[31mc")).toBe("a b [31mc");
  expect(printable("x".repeat(10_000))).toHaveLength(500);
});

it("uses only a content that names the VolumeSnapshot in turn", () => {
  const ours = snapshot(bound);
  expect(isBound(ours, content({}))).toBe(true);
  expect(isBound(ours, content({ uid: "other" }))).toBe(false);
  expect(isBound(ours, content({ uid: undefined }))).toBe(false);
  expect(isBound(ours, content({ namespace: "b" }))).toBe(false);
  expect(isBound(ours, content({ name: "t" }))).toBe(false);
  expect(isBound(ours, content({}, "other"))).toBe(false);
  expect(isBound(snapshot(), content({}))).toBe(false);
});
