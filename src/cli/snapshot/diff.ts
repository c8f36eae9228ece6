import { isCloneable } from "../../api/state/checkpoint.ts";
import type { VolumeClaim } from "../../api/pod/volume-claims.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { describeStep } from "../../api/recipe/recipe.ts";
import {
  NamedSnapshot,
  NamedSnapshotManifest,
  type NamedSnapshotManifest as Manifest,
} from "../../api/kinds/named-snapshot.ts";
import { unchangedSteps, type SnapshotDigest } from "../../api/snapshot/snapshot-digest.ts";
import { copiedContents } from "../../controllers/named-snapshot/keyed-content.ts";
import { claimsOfTemplate } from "../../controllers/volumes/restored-volumes.ts";
import { resolveInputs } from "../../controllers/named-snapshot/resolve-inputs.ts";
import { withCluster, type Cluster, type ClusterOptions } from "../cluster/cluster.ts";
import { printLine, type Io } from "../io.ts";
import { manifestsIn } from "./apply.ts";

export interface DiffSnapshotsOptions extends ClusterOptions {
  /** Paths; `-` reads stdin. */
  file: readonly string[];
}

/** `ramet snapshot diff`: prints what `apply` would build, and from which step. Changes nothing. */
export async function diffSnapshots(io: Io, options: DiffSnapshotsOptions): Promise<void> {
  const manifests = (await Promise.all(options.file.map((path) => manifestsIn(io, path)))).flat();
  return withCluster(io, options, async (cluster) => {
    for (const manifest of manifests) printLine(io.stdout, await difference(io, cluster, manifest));
  });
}

async function difference(io: Io, cluster: Cluster, manifest: Manifest): Promise<string> {
  const { name = "", namespace = cluster.namespace } = manifest.metadata;
  const { items: snapshots } = await cluster.snapshots.list({ namespace, signal: io.signal });
  const found = snapshots.find(({ metadata }) => metadata.name === name);
  const requested = defaulted(manifest, namespace, found);
  const desired = resolveInputs(requested, await lookupsFor(io, cluster, requested, snapshots));
  const what = `snapshot ${name}`;
  if ("problem" in desired) return `${what}: cannot be built yet: ${desired.problem.describe()}`;
  return `${what}: ${effect(requested, desired.digest, found)}`;
}

/** The manifest with the defaults that the API server would add. */
function defaulted(manifest: Manifest, namespace: string, found: NamedSnapshot | undefined): NamedSnapshot {
  const { apiVersion, kind, spec, metadata } = NamedSnapshotManifest.parse(manifest);
  const made = { uid: "", resourceVersion: "", creationTimestamp: "", ...found?.metadata };
  return NamedSnapshot.parse({ apiVersion, kind, spec, metadata: { ...made, ...metadata, namespace } });
}

async function lookupsFor(io: Io, cluster: Cluster, requested: NamedSnapshot, snapshots: readonly NamedSnapshot[]) {
  const { from } = requested.spec;
  const { namespace } = requested.metadata;
  const at = (name: string | undefined) => ({ namespace, name: name ?? "" });
  const read = { signal: io.signal };
  const template = from.template && (await cluster.templates.find(at(from.template.name), read));
  const sandbox = from.sandbox && (await cluster.sandboxes.find(at(from.sandbox.name), read));
  const { templateRef } = sandbox?.spec ?? {};
  const ofSandbox = templateRef && (await cluster.templates.find(at(templateRef.name), read))?.spec;
  const checkpoints =
    from.checkpoint || from.snapshot ? (await cluster.checkpoints.list({ namespace, ...read })).items : [];
  return {
    template: () => template,
    sandbox: () => sandbox,
    snapshot: (name: string) => snapshots.find(({ metadata }) => metadata.name === name),
    checkpoint: (id: string) => checkpoints.find((one) => one.status?.checkpointId === id && isCloneable(one)),
    // A difference does not show the Secrets of a version.
    secretsOfSandbox: () => [],
    secretsOfCheckpoint: () => [],
    volumesOfSandbox: ({ spec }: Sandbox) => volumesIn(claimsOfTemplate(ofSandbox ?? spec, "")),
    volumesOfCheckpoint: (id: string) =>
      volumesIn(checkpoints.find(({ status }) => status?.checkpointId === id)?.status?.ramet?.volumes ?? []),
    copied: await copiedContents(cluster.client, requested, io.signal),
  };
}

function volumesIn(claims: readonly VolumeClaim[]): string[] {
  return claims.map(({ volume }) => volume);
}

function effect({ spec }: NamedSnapshot, { digest, steps }: SnapshotDigest, found: NamedSnapshot | undefined): string {
  const count = spec.recipe.length;
  const { status } = found ?? {};
  if (status?.version === undefined) return `version 1 is built, in ${count} steps: ${digest}`;
  if (status.digest === digest) return `no change: version ${status.version} has this digest`;
  const kept = status.versions?.find((version) => version.digest === digest);
  if (kept !== undefined)
    return `no rebuild: digest is kept as version ${kept.version}, which becomes current immediately`;
  const unchanged = unchangedSteps(status.steps?.map((step) => step.digest) ?? [], steps);
  const first = spec.recipe[unchanged];
  const from =
    first === undefined
      ? "captures again after its last step"
      : `rebuilds from step ${unchanged + 1} of ${count} (${describeStep(first)})`;
  return `${shown(status.digest)} => ${shown(digest)}; ${from}`;
}

function shown(digest: string | undefined): string {
  return digest?.slice(0, "sha256:".length + 12) ?? "none";
}
