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
import {
  followsSnapshot,
  holdOf,
  reviewHeadings,
  reviewRow,
  reviewSnapshot,
  type SnapshotReview,
} from "../../api/snapshot/snapshot-review.ts";
import { findVersion, parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { RametError } from "../../base/errors.ts";
import { type ComparedVersion, diffVersions, type VersionDiff } from "../../api/snapshot/diff-versions.ts";
import { withCluster, type Cluster, type ClusterOptions } from "../cluster/cluster.ts";
import { printLine, writeAll, type Io } from "../io.ts";
import { documentOf, size, table } from "../output/render.ts";
import { openClusterStore } from "../store/collect-garbage.ts";
import { manifestsIn } from "./apply.ts";
import { compareLayers, type ContentDiff } from "./compare-layers.ts";

export interface DiffSnapshotsOptions extends ClusterOptions {
  /** References to versions. Without `file`. */
  from?: string;
  to?: string;
  /** Paths; `-` reads stdin. */
  file?: readonly string[];
  /** The store's directory or address. @default the local cluster's, if that is the cluster */
  storePath?: string;
  output: "table" | "json" | "markdown";
}

/** `ramet snapshot diff`: compares two versions, or prints what `apply` would build, and from which step. Changes nothing. */
export async function diffSnapshots(io: Io, options: DiffSnapshotsOptions): Promise<void> {
  const { from, to = from === undefined ? undefined : parseSnapshotReference(from).name, file } = options;
  if ((from === undefined) === (file === undefined)) {
    throw new RametError("InvalidArgument", "ramet snapshot diff needs either versions or -f", {
      hint: "Write two versions, such as python-data@6 python-data@7, or -f and a file",
    });
  }
  if (from !== undefined && options.output === "markdown") {
    throw new RametError("InvalidArgument", 'Invalid --output "markdown": versions are compared in tables or JSON', {
      hint: "Use -o json, or -f and a file",
    });
  }
  return withCluster(io, options, async (cluster) => {
    if (from !== undefined && to !== undefined) return printVersions(io, cluster, { ...options, from, to });
    const manifests = (await Promise.all((file ?? []).map((path) => manifestsIn(io, path)))).flat();
    if (options.output === "table") {
      for (const manifest of manifests) printLine(io.stdout, await difference(io, cluster, manifest));
      return;
    }
    const reviews: SnapshotReview[] = [];
    for (const manifest of manifests) reviews.push(await review(io, cluster, manifest));
    const isJson = options.output === "json";
    await writeAll(io.stdout, isJson ? documentOf(reviews, "json") : reviewHeadings + reviews.map(reviewRow).join(""));
  });
}

async function printVersions(
  io: Io,
  cluster: Cluster,
  options: DiffSnapshotsOptions & { from: string; to: string },
): Promise<void> {
  const versions = await Promise.all([versionAt(cluster, options.from), versionAt(cluster, options.to)] as const);
  const recorded = diffVersions(...versions);
  const opened = await openClusterStore(io, cluster, options);
  const content: ContentDiff =
    "store" in opened
      ? await compareLayers(opened.store, versions, io.signal)
      : { layers: [], packages: [], notes: [`files and packages are not compared: no store, because ${opened.why}`] };
  const notes = [...content.notes, ...versions.flatMap(missingOf)];
  const diff = { ...recorded, ...content, notes };
  await writeAll(io.stdout, options.output === "json" ? documentOf(diff, "json") : versionTables(diff));
}

async function versionAt(cluster: Cluster, text: string): Promise<ComparedVersion> {
  const reference = parseSnapshotReference(text);
  const snapshot = await cluster.get(cluster.snapshots, reference.name);
  const version = findVersion(snapshot, reference);
  const at = { namespace: cluster.namespace, name: version.checkpointName };
  return { snapshot, version, checkpoint: await cluster.checkpoints.find(at, { signal: cluster.signal }) };
}

function missingOf({ checkpoint, version }: ComparedVersion): string[] {
  return checkpoint === undefined
    ? [`version ${version.version} has lost its Checkpoint ${version.checkpointName}`]
    : [];
}

export function versionTables({
  from,
  to,
  recipe,
  changes,
  layers,
  packages,
  notes,
}: VersionDiff & ContentDiff): string {
  const steps = (recipe ?? []).map((one) => [
    `${one.from?.step ?? ""}`,
    one.from?.text ?? "",
    `${one.to?.step ?? ""}`,
    one.to?.text ?? "",
  ]);
  const files = layers.flatMap(({ layer, largest, ...all }) => [
    [`${layer}`, `${all.files} files`, size(all.removedBytes), size(all.addedBytes), ""],
    ...largest.map((one) => [
      `${layer}`,
      // Its size is not known.
      one.deletion ? `${one.change} (${one.change === "removed" ? "" : "not "}deleted by a layer)` : one.change,
      one.deletion ? "" : size(one.fromBytes),
      one.deletion ? "" : size(one.toBytes),
      one.path,
    ]),
  ]);
  const text = (value: unknown) => (typeof value === "string" ? value : value === null ? "" : canonicalJson(value));
  const said = [...(recipe === null ? ["steps are not compared: an earlier release built a version"] : []), ...notes];
  const ofPackages = packages.map((one) => [one.kind, one.name, one.from ?? "", one.to ?? ""]);
  const ofChanges = changes.map((one) => [one.field, text(one.from), text(one.to)]);
  const parts: [string[], string[][]][] = [
    [["STEP", from, "STEP", to], steps],
    [["PACKAGE", "NAME", from, to], ofPackages],
    [["LAYER", "FILES", from, to, "PATH"], files],
    [["FIELD", from, to], ofChanges],
    [["NOTE"], said.map((note) => [note])],
  ];
  const tables = parts.filter(([, rows]) => rows.length > 0).map(([headings, rows]) => table(headings, rows));
  return tables.length === 0 ? `${from} and ${to} do not differ\n` : tables.join("\n");
}

async function resolved(io: Io, cluster: Cluster, manifest: Manifest) {
  const { name = "", namespace = cluster.namespace } = manifest.metadata;
  const { items: snapshots } = await cluster.snapshots.list({ namespace, signal: io.signal });
  const found = snapshots.find(({ metadata }) => metadata.name === name);
  const requested = defaulted(manifest, namespace, found);
  const desired = resolveInputs(requested, await lookupsFor(io, cluster, requested, snapshots));
  return { name, namespace, found, requested, desired };
}

async function review(io: Io, cluster: Cluster, manifest: Manifest): Promise<SnapshotReview> {
  const { name, namespace, found, requested, desired } = await resolved(io, cluster, manifest);
  const within = { namespace, signal: io.signal };
  const { items: sets } = await cluster.sets.list(within);
  const sandboxes = await cluster.sandboxes.list(within).catch((error: unknown) => {
    if (RametError.from(error).code === "Forbidden") return undefined;
    throw error;
  });
  const reviewed = reviewSnapshot({
    name,
    recipe: requested.spec.recipe,
    digest: "problem" in desired ? undefined : desired.digest,
    found,
    held: found && holdOf(found),
    sets: sets
      .filter((set) => followsSnapshot(set, name))
      .map(({ metadata, spec }) => ({ name: metadata.name, replicas: spec.replicas })),
    sandboxes: sandboxes?.items,
  });
  return "problem" in desired ? { ...reviewed, effect: `cannot be built yet: ${desired.problem.message}` } : reviewed;
}

async function difference(io: Io, cluster: Cluster, manifest: Manifest): Promise<string> {
  const { name, found, requested, desired } = await resolved(io, cluster, manifest);
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
