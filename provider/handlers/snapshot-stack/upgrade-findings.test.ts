import { expect, it } from "vitest";
import { breaksRules } from "./upgrade-findings.ts";

const snapshot = (spec: object) => ({ kind: "VolumeSnapshot", spec });
const content = (spec: object) => ({ kind: "VolumeSnapshotContent", spec });
const volumeSnapshotRef = { name: "a", namespace: "b" };

it("detects snapshots that violate the rules of v8", () => {
  expect(breaksRules(snapshot({ source: { persistentVolumeClaimName: "data" } }))).toBe(false);
  expect(breaksRules(snapshot({ source: { volumeSnapshotContentName: "x" }, volumeSnapshotClassName: "c" }))).toBe(
    false,
  );
  expect(breaksRules(snapshot({ source: {} }))).toBe(true);
  const both = { persistentVolumeClaimName: "data", volumeSnapshotContentName: "x" };
  expect(breaksRules(snapshot({ source: both }))).toBe(true);
  expect(breaksRules(snapshot({ source: { persistentVolumeClaimName: "data" }, volumeSnapshotClassName: "" }))).toBe(
    true,
  );
});

it("detects contents that violate the rules of v8", () => {
  expect(breaksRules(content({ source: { volumeHandle: "v" }, volumeSnapshotRef }))).toBe(false);
  expect(breaksRules(content({ source: { volumeHandle: "v", snapshotHandle: "s" }, volumeSnapshotRef }))).toBe(true);
  expect(breaksRules(content({ source: { volumeHandle: "v" }, volumeSnapshotRef: { name: "a" } }))).toBe(true);
});
