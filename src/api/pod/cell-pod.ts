import type * as z from "zod";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { quantityToBytes } from "../../base/quantity.ts";
import type { LayerRef } from "../wire/grant.ts";
import { CellConfig, type KeySets } from "../wire/cell-api.ts";
import { withoutAgentRuntime } from "./agent-runtime.ts";
import {
  cellContainer,
  type CellImageOptions,
  cellResources,
  cellVolume,
  cellVolumeNames,
  imageVolume,
  nodeCacheVolume,
  rootPath,
  sizeOfLayers,
} from "./cell-container.ts";
import { containerSpec, mainContainer, mountCount } from "./container-spec.ts";
import {
  captureTime,
  type CheckpointInterval,
  chosenDisruption,
  type DisruptionPolicy,
  disruptionPolicyOf,
  evictionAnnotations,
  graceSecondsFor,
  heldGraceSeconds,
  intervalAnnotation,
} from "./disruption.ts";
import { egressDigest } from "../egress/effective-egress.ts";
import { templateDigest, templateRevision } from "./restore-spec.ts";
import { apiVersion } from "../schema/kind.ts";
import { tcpProbePorts } from "./tcp-probe.ts";
import { annotations, labels } from "../names/labels.ts";
import type { PodManifest } from "../schema/pod.ts";
import type { PodTemplateSpec, Volume } from "../schema/pod-template.ts";
import { claimVolumes, withClaims } from "./volume-claims.ts";
import { limitedAffinity, type NodeLimits } from "./node-affinity.ts";

/** The fields of a Sandbox from which its Pod is made. */
export interface PodOwner {
  metadata: { name: string; namespace: string; uid: string; labels?: Record<string, string> | undefined };
  spec: { volumeClaimTemplates?: Record<string, unknown>[] | undefined };
}

export interface CellPodOptions extends CellImageOptions, NodeLimits {
  /** The controller's Ed25519 public key, base64url of its 32 bytes. */
  publicKey: string;
  /** The gateway's public key. Undefined: no gateway can reach the sandbox. */
  gatewayKey?: string;
  /** During a rotation of keys: all keys that the cell accepts. @default the two keys above */
  keySets?: KeySets | undefined;
  /** `boot` for a new sandbox, `wait` for one that will be restored. */
  start: "boot" | "wait";
  /** Whether memory will be restored, and not only files. */
  restoresMemory?: boolean;
  /** The layers of what will be restored. */
  layers?: readonly LayerRef[];
  /** The size of the writable layer of a template without a limit of ephemeral storage. @default that of the cell */
  layerBytes?: number | undefined;
  /** The namespace's directory on each node, and its limit. @default its Pods share nothing */
  nodeCache?: { path: string; sizeBytes: number } | undefined;
  /** What becomes of the sandbox if others end its Pod and the template does not say. @default End */
  onDisruption?: DisruptionPolicy | undefined;
  /** How often the sandbox is captured if the template does not say. @default none */
  checkpointEvery?: CheckpointInterval | undefined;
  /** How many bytes a second the store takes. @default unknown: the grace period is that of the template, or 30 seconds */
  storeBytesPerSecond?: number | undefined;
  /** The size of what will be restored. @default 0 */
  restoredBytes?: number | undefined;
  /** The longest grace period that follows from sizes and from the store's speed. @default 300 */
  longestGraceSeconds?: number | undefined;
  /** Whether the cluster autoscaler must not end it: it is not captured, and costs the work of a build. */
  isBuild?: boolean;
  /** Whether a restore in place is likely. */
  keepsWaiting?: boolean;
  dns?: z.input<typeof CellConfig>["dns"];
  egress?: z.input<typeof CellConfig>["egress"];
  /** The claims that volumes mount instead of those of the template, by the name of the volume. @default those of the template */
  claims?: ReadonlyMap<string, string>;
  /** The architecture of what is restored. @default that of the image */
  architecture?: string | undefined;
  /** Why the image is not resolved although it should be: JSON for the annotation. */
  imageProblem?: string | undefined;
  /** IPv4 ranges of Pods, Services and nodes. A sandbox can reach them only if a rule names an address in them. */
  clusterRanges?: string[];
}

/**
 * Returns the Pod of a sandbox: that of the template, with the cell instead of the main container. Init containers, sidecars,
 * volumes, resources, ports and probes keep their meaning. Containers and hooks that inject envd are left out.
 * @throws RametError `InvalidArgument` that names an unsupported field of the template
 */
export function cellPod(sandbox: PodOwner, template: PodTemplateSpec, options: CellPodOptions): PodManifest {
  const { name, namespace, uid } = sandbox.metadata;
  const container = mainContainer(template);
  const run = withoutAgentRuntime(template);
  requireOtherVolumes(template);
  const chosen = chosenDisruption(template.metadata?.annotations, "spec.template.metadata");
  const byDefault = { [annotations.onDisruption]: options.onDisruption ?? "End" };
  const policy = disruptionPolicyOf({ metadata: { annotations: { ...byDefault, ...chosen } } });
  const podGraceSeconds = heldGraceSeconds(
    policy,
    template.spec.terminationGracePeriodSeconds,
    neededGrace(template, options),
  );
  const config = cellConfig(sandbox, template, { ...options, podGraceSeconds });
  // The scale subresource of a set selects its Pods by it.
  const ofSet = defined({ [labels.sandboxPool]: sandbox.metadata.labels?.[labels.sandboxPool] });
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      labels: {
        ...template.metadata?.labels,
        ...ofSet,
        [labels.createdBy]: "sandbox",
        [labels.sandboxName]: name,
        [labels.podTemplateHash]: templateRevision(template),
        [labels.cell]: "true",
      },
      annotations: {
        ...(options.isBuild !== true && evictionAnnotations(policy)),
        ...withoutImage(template.metadata?.annotations),
        [annotations.createdBy]: "sandbox",
        [annotations.onDisruption]: policy,
        ...intervalAnnotation(chosen, options.checkpointEvery),
        ...imageAnnotations(options),
        ...(options.egress && { [annotations.egressDigest]: egressDigest(config.egress) }),
      },
      ownerReferences: [{ apiVersion, kind: "Sandbox", name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      ...run.spec,
      ...defined({ terminationGracePeriodSeconds: podGraceSeconds }),
      // A restarted cell would have lost its sandbox. The controller decides what happens then.
      restartPolicy: "Never",
      ...architectureOf(template, options),
      ...(options.userNamespace === true && { hostUsers: false }),
      automountServiceAccountToken: false,
      ...placement(template, options),
      containers: [
        cellContainer(mainContainer(run), config, {
          ...options,
          hasOverhead: hasOverhead(template),
          userNamespace: options.userNamespace === true || template.spec["hostUsers"] === false,
        }),
        ...run.spec.containers.slice(1),
      ],
      volumes: [
        ...withClaims(
          ownVolumes(sandbox.metadata.name, { template, volumeClaims: sandbox.spec.volumeClaimTemplates }),
          options.claims,
        ),
        imageVolume(container, options.resolvedImage),
        cellVolume,
        ...(options.nodeCache === undefined ? [] : [nodeCacheVolume(options.nodeCache.path)]),
      ],
    },
  };
}

function cellConfig(
  sandbox: PodOwner,
  template: PodTemplateSpec,
  options: CellPodOptions & { podGraceSeconds: number | undefined },
): CellConfig {
  const { name, namespace, uid } = sandbox.metadata;
  const probedPorts = tcpProbePorts(mainContainer(template));
  return CellConfig.parse({
    v: 1,
    sandbox: { namespace, name, uid },
    container: containerSpec(template).spec,
    rootPath,
    templateDigest: templateDigest(template),
    start: options.start,
    ...(isLayerInMemory(template) && { layerInMemory: true as const }),
    ...(options.restoresMemory === true && { restores: "memory" as const }),
    ...(options.layers !== undefined && options.layers.length > 0 && { layers: [...options.layers] }),
    ...(options.keepsWaiting === true && { keepsWaiting: true }),
    graceSeconds: template.spec.terminationGracePeriodSeconds,
    ...(probedPorts.length > 0 && { tcpProbePorts: probedPorts }),
    publicKey: options.publicKey,
    ...defined({
      gatewayKey: options.gatewayKey,
      keySets: options.keySets,
      layerBytes: options.layerBytes,
      nodeCacheBytes: options.nodeCache?.sizeBytes,
      podGraceSeconds: options.podGraceSeconds,
      dns: options.dns,
      egress: options.egress,
      clusterRanges: options.clusterRanges,
    }),
  } satisfies z.input<typeof CellConfig>);
}

/**
 * A container that could write to a directory of the cell would have the cell's rights.
 * @throws RametError `InvalidArgument`
 */
function requireOtherVolumes(template: PodTemplateSpec): void {
  const volumes = template.spec.volumes ?? [];
  const taken = cellVolumeNames.find(
    (own) => mountCount(template, own) > 0 || volumes.some(({ name }) => name === own),
  );
  if (taken === undefined) return;
  const what = `spec.template.spec: the volume ${taken} is the cell's own`;
  throw new RametError("InvalidArgument", what, { hint: "Use a volume with another name" });
}

/** @throws RametError `InvalidArgument` */
function isLayerInMemory({ metadata }: PodTemplateSpec): boolean {
  const medium = metadata?.annotations?.[annotations.writableLayer] ?? "disk";
  if (medium === "disk" || medium === "memory") return medium === "memory";
  throw new RametError(
    "InvalidArgument",
    `spec.template.metadata.annotations[${annotations.writableLayer}]: ${JSON.stringify(medium)} is not a medium; use disk or memory`,
  );
}

/** The bytes of ephemeral storage that a Pod of a template can have if it unpacks these layers. Undefined: the template has no limit. */
export function storageLimit(template: PodTemplateSpec, layers: readonly LayerRef[]): number | undefined {
  return limitOf(template, "ephemeral-storage", layers);
}

function limitOf(template: PodTemplateSpec, name: string, layers: readonly LayerRef[] = []): number | undefined {
  const { resources } = mainContainer(template);
  const own = resources && hasOverhead(template) ? cellResources(resources, true, sizeOfLayers(layers)) : resources;
  const limit = own?.limits?.[name];
  return limit === undefined ? undefined : quantityToBytes(limit);
}

/** For a capture of all memory and files that the sandbox can have, or of as much as is restored. 0: nobody knows. */
function neededGrace(template: PodTemplateSpec, options: CellPodOptions): number {
  const { storeBytesPerSecond: speed, restoredBytes = 0, longestGraceSeconds: longest = 300 } = options;
  const files = isLayerInMemory(template)
    ? undefined
    : mainContainer(template).resources?.limits?.["ephemeral-storage"];
  const bytes = Math.max(restoredBytes, (limitOf(template, "memory") ?? 0) + quantityToBytes(files ?? 0));
  return speed === undefined || bytes === 0 ? 0 : Math.min(longest, graceSecondsFor(captureTime(bytes, speed)));
}

function hasOverhead({ metadata }: PodTemplateSpec): boolean {
  return metadata?.annotations?.[annotations.cellOverhead] !== "none";
}

function placement({ spec }: PodTemplateSpec, { node, avoided }: NodeLimits): object {
  if (node === undefined && avoided === undefined) return {};
  return { affinity: limitedAffinity(spec["affinity"], { node, avoided }) };
}

/** The volumes of a sandbox's Pod without those of the cell. */
export function ownVolumes(
  name: string,
  { template, volumeClaims }: { template: PodTemplateSpec; volumeClaims: PodOwner["spec"]["volumeClaimTemplates"] },
): Volume[] {
  return [...(template.spec.volumes ?? []), ...claimVolumes(volumeClaims, name)];
}

function imageAnnotations({ resolvedImage, imageProblem }: CellPodOptions): Record<string, string> {
  return {
    ...(resolvedImage && { [annotations.image]: JSON.stringify(resolvedImage) }),
    ...defined({ [annotations.imageProblem]: imageProblem }),
  };
}

/** The Pod's own annotation counts, also if it has none: the template's can be that of another image. */
function withoutImage(given: Record<string, string> | undefined): Record<string, string> {
  const { [annotations.image]: _, [annotations.imageProblem]: __, ...kept } = given ?? {};
  return kept;
}

/** A resolved image is a manifest for one architecture, and a node of another one cannot pull it. A checkpoint has one, too. */
function architectureOf(
  { spec }: PodTemplateSpec,
  { resolvedImage, architecture: restored }: CellPodOptions,
): Partial<PodTemplateSpec["spec"]> {
  const architecture = resolvedImage?.config.architecture ?? restored;
  if (architecture === undefined) return {};
  return { nodeSelector: { [architectureLabel]: architecture, ...nodeSelectorOf(spec) } };
}

/** Set by every kubelet. */
const architectureLabel = "kubernetes.io/arch";

/** The architecture that a template asks for. As in Go. */
export function requestedArchitecture({ spec }: PodTemplateSpec): string | undefined {
  const found = nodeSelectorOf(spec)[architectureLabel];
  return typeof found === "string" ? found : undefined;
}

function nodeSelectorOf(spec: PodTemplateSpec["spec"]): Record<string, unknown> {
  const found = spec["nodeSelector"];
  return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
}
