/** `ramet/api`: the kinds of Ramet as types and schemas, and its errors, for programs without Pulumi. */
export { RametError, type RametErrorOptions } from "./base/errors.ts";
export { errorCodes, type ErrorCode } from "./base/error-codes.ts";
export { kinds } from "./api/kinds/crd.ts";
export { renderCrds } from "./api/kinds/crd.ts";
export { annotations, labels, restoreFromAnnotations } from "./api/names/labels.ts";
export { Contents } from "./api/schema/metadata.ts";
export { Sandbox, SandboxManifest, SandboxSpec, SandboxStatus, type SandboxPhase } from "./api/kinds/sandbox.ts";
export {
  Checkpoint,
  CheckpointManifest,
  CheckpointSpec,
  CheckpointStatus,
  type CheckpointPhase,
} from "./api/kinds/checkpoint.ts";
export { SandboxTemplate, SandboxTemplateManifest, SandboxTemplateSpec } from "./api/kinds/sandbox-template.ts";
export { SandboxSet, SandboxSetSpec, SandboxSetStatus } from "./api/kinds/sandbox-set.ts";
export { SandboxClaim, SandboxClaimSpec, SandboxClaimStatus } from "./api/kinds/sandbox-claim.ts";
export { NamedSnapshot, NamedSnapshotManifest, NamedSnapshotSpec, SnapshotSource } from "./api/kinds/named-snapshot.ts";
export { NamedSnapshotStatus, SnapshotVersion } from "./api/kinds/named-snapshot-status.ts";
export { RecipeStep, describeStep } from "./api/recipe/recipe.ts";
export { snapshotDigest, unchangedSteps, type SnapshotDigest } from "./api/snapshot/snapshot-digest.ts";
export {
  secretIdentity,
  type CopiedContent,
  type ResolvedSource,
  type SnapshotInputs,
} from "./api/snapshot/snapshot-digest.ts";
export {
  parseSnapshotReference,
  printSnapshotReference,
  type SnapshotReference,
} from "./api/snapshot/snapshot-reference.ts";
