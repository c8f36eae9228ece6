import { checkpointKind, type CheckpointManifest } from "../../api/kinds/checkpoint.ts";
import { annotations, labels, restoreFromAnnotations } from "../../api/names/labels.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { sandboxKind, type SandboxManifest } from "../../api/kinds/sandbox.ts";
import { digestLabel } from "./names.ts";
import { ownerReference } from "./owner-reference.ts";
import type { SnapshotAction } from "./state.ts";

type Of<Action extends SnapshotAction["do"]> = Extract<SnapshotAction, { do: Action }>;

/** The sandbox in which the steps run. Its template stands in it: a change of the SandboxTemplate is another build's. */
export function builderSandbox(snapshot: NamedSnapshot, { name, base }: Of<"createBuilder">): SandboxManifest {
  const restoreFrom = "checkpointId" in base ? { [restoreFromAnnotations[0]]: base.checkpointId } : {};
  return {
    apiVersion: sandboxKind.apiVersion,
    kind: "Sandbox",
    metadata: {
      name,
      namespace: snapshot.metadata.namespace,
      labels: { [labels.purpose]: "build", [labels.snapshot]: snapshot.metadata.name },
      annotations: { ...restoreFrom, [annotations.buildBaseSteps]: String(base.steps) },
      ownerReferences: [ownerReference(snapshot)],
    },
    spec: "template" in base ? { ...base.template, pauseStrategy: undefined } : {},
  };
}

/** A Checkpoint of the builder, or of the sandbox that the snapshot is built from. */
export function captureCheckpoint(snapshot: NamedSnapshot, capture: Of<"capture">): CheckpointManifest {
  const { namespace, uid, name } = snapshot.metadata;
  const { of, sandboxName } = capture;
  const stepDigest = of === "source" ? undefined : capture.stepDigest;
  return {
    apiVersion: checkpointKind.apiVersion,
    kind: "Checkpoint",
    metadata: {
      name: capture.name,
      namespace,
      labels: {
        [labels.purpose]: of,
        [labels.snapshot]: name,
        [labels.snapshotUid]: uid,
        ...(stepDigest !== undefined && { [labels.stepDigest]: digestLabel(stepDigest) }),
      },
      annotations: {
        ...(of === "version" && { [annotations.snapshotDigest]: capture.digest }),
        ...(stepDigest !== undefined && { [annotations.stepDigest]: stepDigest }),
      },
      // A version may outlive its named snapshot, so it is not owned by it.
      ...(of !== "version" && { ownerReferences: [ownerReference(snapshot)] }),
    },
    spec: {
      sandboxName,
      keepRunning: true,
      persistentContents: of === "version" ? [...snapshot.spec.contents] : ["memory", "filesystem"],
    },
  };
}
