import { describe, expect, it } from "vitest";
import { Checkpoint, type CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { exportedVolumes, parseExportedVolumes } from "./exported-volumes.ts";

const time = "2030-01-01T00:00:00Z";
const files: CheckpointPart = {
  backend: "cell",
  handle: `sha256:${"1".repeat(64)}`,
  contents: ["memory", "filesystem"],
  sizeBytes: 1,
  cutAt: time,
  consistency: "atomic",
};
const data: CheckpointPart = {
  backend: "csi",
  handle: "snap-1",
  contents: ["volumes"],
  sizeBytes: 1024,
  cutAt: time,
  consistency: "atomic",
  volume: {
    volume: "data",
    claim: "data-a",
    snapshot: "ramet-c-1-0123456789",
    driver: "ebs.csi.aws.com",
    storageClassName: "gp3",
    accessModes: ["ReadWriteOnce"],
  },
};

function checkpointWith(parts: CheckpointPart[], phase = "Succeeded"): Checkpoint {
  return Checkpoint.parse({
    apiVersion: "agents.kruise.io/v1alpha1",
    kind: "Checkpoint",
    metadata: { name: "c", namespace: "t", uid: "u", resourceVersion: "1", creationTimestamp: time },
    spec: { sandboxName: "a" },
    status: { phase, checkpointId: "c-1", ramet: { parts, secrets: ["api-key"] } },
  });
}

describe("exportedVolumes", () => {
  it("has what an import needs of each volume, and nothing of the namespace", () => {
    expect(exportedVolumes(checkpointWith([data, files]))).toEqual({
      format: "ramet.dev/exported-volumes",
      version: 1,
      checkpoint: "c-1",
      volumes: [
        {
          volume: "data",
          driver: "ebs.csi.aws.com",
          snapshotHandle: "snap-1",
          sizeBytes: 1024,
          storageClassName: "gp3",
          accessModes: ["ReadWriteOnce"],
          consistency: "atomic",
          cutAt: time,
        },
      ],
    });
  });

  it("refuses a checkpoint without volumes, and one that has not succeeded", () => {
    expect(() => exportedVolumes(checkpointWith([files]))).toThrow(/it has no volumes/);
    expect(() => exportedVolumes(checkpointWith([data], "Creating"))).toThrow(/it has not succeeded/);
  });
});

describe("parseExportedVolumes", () => {
  it("reads what was exported", () => {
    const exported = exportedVolumes(checkpointWith([data]));
    expect(parseExportedVolumes(JSON.parse(JSON.stringify(exported)))).toEqual(exported);
  });

  it.each([
    [{ version: 2 }, /version/],
    [{ format: "other" }, /format/],
    [{ volumes: [] }, /volumes/],
    [{ volumes: [{ volume: "data", driver: "a/b", snapshotHandle: "1" }] }, /volumes\.0\.driver: must be the name/],
    [{ volumes: [{ volume: "data", driver: "a.b", snapshotHandle: "" }] }, /volumes\.0\.snapshotHandle/],
  ])("refuses %o, and names the field", (change, message) => {
    const exported = exportedVolumes(checkpointWith([data]));
    expect(() => parseExportedVolumes({ ...exported, ...change })).toThrow(message);
  });
});
