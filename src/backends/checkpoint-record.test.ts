import { describe, expect, it } from "vitest";
import { type CheckpointPart, RametCheckpointStatus } from "../api/kinds/checkpoint.ts";
import { checkpointRecord, partsOf } from "./checkpoint-record.ts";

const needs = { architecture: "amd64", engine: "20260905.1", platform: "systrap" };
const files: CheckpointPart = {
  backend: "cell",
  handle: `sha256:${"1".repeat(64)}`,
  contents: ["memory", "filesystem"],
  cutAt: "2030-01-01T00:00:01Z",
  readyAt: "2030-01-01T00:00:02Z",
  sizeBytes: 2,
  consistency: "atomic",
  needs,
};
const volumes: CheckpointPart = {
  backend: "csi",
  handle: "content-1",
  contents: ["volumes"],
  cutAt: "2030-01-01T00:00:00Z",
  readyAt: "2030-01-01T00:00:03Z",
  sizeBytes: 3,
  consistency: "crash",
};

describe("the record of a checkpoint", () => {
  it("says whether several volumes were captured together", () => {
    const volume = (groupSnapshot?: string): CheckpointPart => ({
      ...volumes,
      volume: {
        volume: "v",
        claim: "c",
        snapshot: "s",
        driver: "d",
        accessModes: [],
        ...(groupSnapshot && { groupSnapshot }),
      },
    });
    const consistencyOf = (...parts: CheckpointPart[]) => checkpointRecord([...parts, files], {}).groupConsistency;
    expect(consistencyOf()).toBeUndefined();
    expect(consistencyOf(volume())).toBeUndefined();
    expect(consistencyOf(volume("a"), volume("a"))).toBe("group");
    for (const other of [undefined, "b"]) expect(consistencyOf(volume("a"), volume(other))).toBe("sequential");
    expect(checkpointRecord([], { groupNote: "no class" }).groupNote).toBe("no class");
  });

  it("summarizes its parts", () => {
    const record = checkpointRecord([volumes, files], { image: "python", pausedMilliseconds: 5 });
    expect(RametCheckpointStatus.parse(record)).toEqual({
      parts: [volumes, files],
      backend: "cell",
      manifestDigest: files.handle,
      contents: ["memory", "filesystem"],
      sizeBytes: 5,
      cutAt: files.cutAt,
      readyAt: volumes.readyAt,
      consistency: "crash",
      needs,
      image: "python",
      pausedMilliseconds: 5,
    });
    expect(partsOf(record)).toEqual([volumes, files]);
  });

  it("has no parts where no data is recorded", () => {
    expect(partsOf(undefined)).toBeUndefined();
    expect(partsOf({ contents: ["filesystem"] })).toBeUndefined();
  });
});
