/** `ramet/api`: what Ramet offers to programs without Pulumi: its kinds as types and schemas, and its errors. */
export { RametError, type RametErrorOptions } from "./api/errors.ts";
export { errorCodes, type ErrorCode } from "./api/error-codes.ts";
export { kinds } from "./api/kinds.ts";
export { renderCrds } from "./api/crd.ts";
export { annotations, labels, restoreFromAnnotations } from "./api/labels.ts";
export { Contents } from "./api/contents.ts";
export { Sandbox, SandboxManifest, SandboxSpec, SandboxStatus, type SandboxPhase } from "./api/sandbox.ts";
export {
  Checkpoint,
  CheckpointManifest,
  CheckpointSpec,
  CheckpointStatus,
  type CheckpointPhase,
} from "./api/checkpoint.ts";
export { SandboxTemplate, SandboxTemplateManifest, SandboxTemplateSpec } from "./api/sandbox-template.ts";
export { SandboxSet, SandboxSetSpec, SandboxSetStatus } from "./api/sandbox-set.ts";
export { SandboxClaim, SandboxClaimSpec, SandboxClaimStatus } from "./api/sandbox-claim.ts";
export { NamedSnapshot, NamedSnapshotManifest, NamedSnapshotSpec, SnapshotSource } from "./api/named-snapshot.ts";
export { NamedSnapshotStatus, SnapshotVersion } from "./api/named-snapshot-status.ts";
export { RecipeStep, describeStep } from "./api/recipe.ts";
export { snapshotDigest, unchangedSteps, type SnapshotDigest } from "./api/snapshot-digest.ts";
export { secretIdentity, type CopiedContent, type ResolvedSource, type SnapshotInputs } from "./api/snapshot-inputs.ts";
export { parseSnapshotReference, printSnapshotReference, type SnapshotReference } from "./api/snapshot-reference.ts";
