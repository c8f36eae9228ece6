import { expect, it } from "vitest";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { planCheckpoint } from "./plan.ts";
import type { CheckpointState } from "./state.ts";

const now = new Date("2030-01-01T00:00:00Z");
const volumeImport = { volumes: [{ volume: "data", driver: "ebs.csi.aws.com", snapshotHandle: "snap-1" }] };

/** An import with the annotation of a capture, which anybody can write. */
function stateOf({ isDeleted = false, ...rest }: Partial<CheckpointState> & { isDeleted?: boolean } = {}) {
  const metadata = {
    name: "c",
    namespace: "t",
    uid: "u",
    resourceVersion: "1",
    creationTimestamp: now.toISOString(),
    finalizers: ["agents.kruise.io/checkpoint"],
    annotations: { "ramet.dev/pod-uid": "forged" },
    ...(isDeleted && { deletionTimestamp: now.toISOString() }),
  };
  const apiVersion = "agents.kruise.io/v1alpha1";
  const status = { phase: "Creating" };
  return {
    checkpoint: Checkpoint.parse({ apiVersion, kind: "Checkpoint", metadata, spec: { volumeImport }, status }),
    checkpointId: "c-1",
    spec: {
      sandboxName: "",
      keepRunning: true,
      contents: [],
      volumes: "none",
      consistency: "crash",
      requireAtomic: false,
      quiesce: {},
      ttlMilliseconds: undefined,
    },
    source: { volumeImport },
    earlierCapture: undefined,
    preparation: undefined,
    capture: undefined,
    secrets: [],
    volumes: [],
    finding: undefined,
    quota: {},
    now,
    ...rest,
  } satisfies CheckpointState;
}

const doing = (state: CheckpointState) => planCheckpoint(state).actions.map((action) => action.do);
const running: CheckpointState["capture"] = { state: "running", failures: 0 };

it("starts an import, also after a controller that has started it has ended", () => {
  expect(doing(stateOf())).toEqual(["startImport"]);
  expect(doing(stateOf({ capture: running }))).toEqual([]);
});

it("fails an import beyond the quota before it starts", () => {
  const problem = new RametError("QuotaExceeded", "the namespace t uses 1 of 1");
  const { actions, status } = planCheckpoint(stateOf({ quota: { problem } }));
  expect([actions, status?.phase]).toEqual([[], "Failed"]);
});

it("does not wait for the end of an import that is deleted", () => {
  for (const capture of [undefined, running])
    expect(doing(stateOf({ isDeleted: true, capture }))).toEqual(["removeData"]);
});
