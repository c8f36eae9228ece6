import { describe, expect, it } from "vitest";
import {
  content,
  early,
  event,
  facts,
  failed,
  handle,
  justNow,
  names,
  now,
  snapshot,
} from "../../../test/setup/volume-samples.ts";
import { phaseOfContent, phaseOfSnapshot } from "./volume-facts.ts";

describe("the phase of a VolumeSnapshot", () => {
  it.each([
    ["Pending", snapshot(), undefined],
    ["BlockedByClass", snapshot(failed("cannot find default snapshot class")), undefined],
    ["BlockedByClass", snapshot(failed("2 default snapshot classes were found")), undefined],
    [
      "BlockedBySource",
      snapshot(failed("the PVC x is not yet bound to a PV, will not attempt to take a snapshot")),
      undefined,
    ],
    ["BlockedBySource", snapshot(failed("cannot add finalizer on claim because it is being deleted")), undefined],
    ["BlockedBySource", snapshot(failed("cannot find CSI PersistentVolumeSource for volume v")), undefined],
    ["Creating", snapshot({}), content(undefined, { annotations: { [names.beingCreated]: "yes" } })],
    ["Cut", snapshot({ readyToUse: false }), content({ ...handle, readyToUse: false })],
    ["Cut", snapshot(failed("x")), content({ ...handle, readyToUse: false, ...failed("x") })],
    ["Ready", snapshot({ readyToUse: true }), content({ ...handle, readyToUse: true })],
    ["Failing", snapshot(failed("x")), content(failed("x"))],
    ["Failing", snapshot(failed("x")), undefined],
    ["Deleting", snapshot(undefined, { deletionTimestamp: justNow }), undefined],
    ["DeleteBlocked", snapshot(undefined, { deletionTimestamp: early }), undefined],
  ])("is %s", (phase, one, bound) => {
    expect(phaseOfSnapshot(facts({ snapshot: one, content: { value: bound } }))).toBe(phase);
  });

  it("is not Ready if only one side says so, or if the content is of another snapshot", () => {
    const ready = snapshot({ readyToUse: true });
    const other = { volumeSnapshotRef: { namespace: "t", name: "a", uid: "other" } };
    for (const one of [content({ ...handle, readyToUse: false }), content({ readyToUse: true }, {}, other)])
      expect(phaseOfSnapshot(facts({ snapshot: ready, content: { value: one } }))).not.toBe("Ready");
    expect(phaseOfSnapshot(facts({ snapshot: ready, content: { unknown: "forbidden" } }))).toBe("Ready");
  });

  it("is DeleteBlocked as soon as an Event says so", () => {
    const events = { value: [event("SnapshotDeletePending", "Snapshot is being used to restore a PVC")] };
    expect(phaseOfSnapshot(facts({ snapshot: snapshot(undefined, { deletionTimestamp: justNow }), events }))).toBe(
      "DeleteBlocked",
    );
    expect(phaseOfContent(content(undefined, { deletionTimestamp: early }), now)).toBe("DeleteBlocked");
  });
});
