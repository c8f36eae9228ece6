/** The API for Pulumi programs. Types and schemas of the kinds, without Pulumi, are in `ramet/api`. */
export { ApiKey, type ApiKeyArgs, type ApiKeyLimitsArgs } from "./api-key.ts";
export { AksStoreIdentity, type AksStoreIdentityArgs } from "./identity/aks-store-identity.ts";
export { EksStoreIdentity, type EksStoreIdentityArgs } from "./identity/eks-store-identity.ts";
export { GkeStoreIdentity, type GkeStoreIdentityArgs } from "./identity/gke-store-identity.ts";
export { NamedSnapshot, type NamedSnapshotArgs } from "./named-snapshot.ts";
export { type PlacementArgs } from "./placement.ts";
export { type DisruptionArgs } from "./disruption.ts";
export { type ClaimTemplateArgs, type MountArgs, type PodArgs, type SecretKeyArgs } from "./pod-template.ts";
export {
  copy,
  env,
  run,
  start,
  user,
  waitFor,
  workdir,
  type CommandOptions,
  type CopyArgs,
  type RecipeStepArgs,
  type WaitForArgs,
} from "./recipe.ts";
export { Provider, type ProviderArgs } from "./ramet-resource.ts";
export { RametRuntime, type RametRuntimeArgs } from "./ramet-runtime.ts";
export { type AzureStore, type GcsStore, type RametStore, type S3Store } from "./ramet-store.ts";
export {
  type CellArgs,
  type EgressArgs,
  type EncryptionArgs,
  type ClientApiArgs,
  type GatewayArgs,
  type NamespaceQuotaArgs,
  type RegistriesArgs,
} from "./runtime-settings.ts";
export { type Manifest } from "../src/install/manifest.ts";
export { Sandbox, type SandboxArgs } from "./sandbox.ts";
export { SandboxClone, type SandboxCloneArgs } from "./sandbox-clone.ts";
export { SandboxSet, type SandboxSetArgs } from "./sandbox-set.ts";
export { SandboxTemplate, type SandboxTemplateArgs } from "./sandbox-template.ts";
export { SnapshotStack } from "./snapshot-stack.ts";
export { type AksStackArgs } from "./snapshot-stack/aks.ts";
export { type EksStackArgs, type EksStackStore } from "./snapshot-stack/eks.ts";
export { type GkeStackArgs, type GkeStackStore } from "./snapshot-stack/gke.ts";
export { type SnapshotControllerArgs, type SnapshotStackArgs } from "./snapshot-stack/args.ts";
export {
  type AlibabaDiskSnapshotOptions,
  type AzureDiskSnapshotOptions,
  type EbsSnapshotOptions,
  type PdSnapshotOptions,
  type SnapshotClassArgs,
} from "./snapshot-stack/snapshot-class.ts";
export { type SnapshotStackFacts } from "../provider/handlers/snapshot-stack/stack-facts.ts";
export { type SnapshotSourceArgs } from "./named-snapshot.ts";
export { type CloudTransform, type CloudResource } from "./cloud-package.ts";
