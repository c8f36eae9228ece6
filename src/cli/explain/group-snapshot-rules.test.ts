import { describe, expect, it } from "vitest";
import { now, metadata, failed } from "../../../test/setup/volume-samples.ts";
import { GroupSnapshot } from "../../kube/volumes/snapshots.ts";
import { explainGroup } from "./group-snapshot-rules.ts";

describe("a VolumeGroupSnapshot", () => {
  it.each([
    [{ readyToUse: true }, { state: "healthy", phase: "Ready" }],
    [failed("cannot find default group snapshot class"), { reason: "NoDefaultClass" }],
    [failed("label selector app=db for group snapshot not applied to any PVC"), { reason: "SourceMissing" }],
    [failed("rpc error: code = Internal desc = no"), { reason: "DriverError" }],
    [undefined, { reason: "SnapshotControllerSilent" }],
    [{ readyToUse: false }, { state: "waiting", reason: "Creating" }],
  ])("with %o", (status, found) => {
    const group = GroupSnapshot.parse({ metadata, ...(status && { status }) });
    expect(explainGroup({ now, group, events: { value: [] }, quotas: { value: [] } })).toMatchObject(found);
  });
});
