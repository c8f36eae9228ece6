import { parseAllDocuments } from "yaml";
import {
  type NamedSnapshot,
  NamedSnapshotManifest,
  type NamedSnapshotManifest as Manifest,
} from "../../api/kinds/named-snapshot.ts";
import { annotations } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import { awaitBuild } from "../../operations/await-build.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { type Io, printLine, readInput } from "../io.ts";
import type { WaitFlags } from "../options.ts";
import { exitCodes, reportFailure } from "../report-error.ts";

export interface ApplySnapshotsOptions extends ClusterOptions, WaitFlags {
  /** Paths; `-` reads stdin. */
  file: readonly string[];
  keepOnFailure?: boolean;
}

/** `ramet snapshot apply`: applies NamedSnapshot manifests and follows their builds. */
export async function applySnapshots(io: Io, options: ApplySnapshotsOptions): Promise<number> {
  const manifests = (await Promise.all(options.file.map((path) => manifestsIn(io, path)))).flat();
  return withCluster(io, options, async (cluster) => {
    const codes: number[] = [];
    // In order: a snapshot is often built from the one before it.
    for (const manifest of manifests) codes.push(await applyOne(io, cluster, manifest, options));
    return codes.find((code) => code !== exitCodes.ok) ?? exitCodes.ok;
  });
}

async function applyOne(
  io: Io,
  cluster: Cluster,
  manifest: NamedSnapshotManifest,
  options: ApplySnapshotsOptions,
): Promise<number> {
  const { name, namespace = cluster.namespace } = manifest.metadata;
  const kept = options.keepOnFailure === true && { [annotations.keepBuilder]: "true" };
  const metadata = { ...manifest.metadata, namespace, annotations: { ...manifest.metadata.annotations, ...kept } };
  const applyOptions = { fieldManager: "ramet-cli", force: true, signal: io.signal };
  const applied = await cluster.snapshots.apply({ ...manifest, metadata }, applyOptions);
  if (!options.wait) {
    printLine(io.stdout, `snapshot ${name ?? ""} applied`);
    return exitCodes.ok;
  }
  const wait = { timeoutMilliseconds: options.timeout, signal: io.signal };
  const settled = await awaitBuild(clusterObjects(io, cluster).snapshots, applied, wait);
  if ("failure" in settled) return reportFailure(io, settled.failure);
  const { status } = settled.object;
  printLine(
    io.stdout,
    `snapshot ${name ?? ""} is at version ${status?.version ?? "none"} ${status?.digest ?? ""}`.trim(),
  );
  return exitCodes.ok;
}

export interface BuildSnapshotOptions extends WaitFlags {
  name: string;
  keepOnFailure?: boolean;
}

/** `ramet snapshot build`: retries a failed build and follows it. Steps that are already built are reused. */
export async function buildSnapshot(io: Io, cluster: Cluster, options: BuildSnapshotOptions): Promise<number> {
  const { name } = options;
  const found = await cluster.get(cluster.snapshots, name);
  refuseHeld(found);
  const request = io.clock.now().toISOString();
  const requested = {
    [annotations.buildRequest]: request,
    [annotations.keepBuilder]: options.keepOnFailure === true ? "true" : null,
  };
  const asked = await cluster.snapshots.mergePatch(
    found.metadata,
    { metadata: { annotations: requested } },
    { signal: io.signal },
  );
  if (!options.wait) {
    printLine(io.stdout, `snapshot ${name} is requested`);
    return exitCodes.ok;
  }
  const wait = { timeoutMilliseconds: options.timeout, signal: io.signal };
  const settled = await awaitBuild(clusterObjects(io, cluster).snapshots, asked, { ...wait, request });
  if ("failure" in settled) return reportFailure(io, settled.failure);
  printLine(io.stdout, `snapshot ${name} is at version ${settled.object.status?.version ?? "none"}`);
  return exitCodes.ok;
}

/** @throws RametError `Conflict` for a snapshot of which nothing is built */
function refuseHeld({ metadata, spec }: NamedSnapshot): void {
  const { name, namespace } = metadata;
  if (spec.pinnedVersion !== undefined) {
    throw new RametError(
      "Conflict",
      `Cannot build the snapshot ${name}: it is pinned to version ${spec.pinnedVersion}`,
      { hint: `Remove the pin with: ramet snapshot unpin ${name} -n ${namespace}` },
    );
  }
  if (spec.suspend === true) {
    throw new RametError("Conflict", `Cannot build the snapshot ${name}: its builds are suspended`, {
      hint: "Remove spec.suspend from the object",
    });
  }
}

/**
 * Reads the NamedSnapshot manifests of a file in YAML or JSON.
 *
 * @throws RametError `InvalidArgument`, naming the file and the invalid field; `NotFound`
 */
export async function manifestsIn(io: Io, path: string): Promise<Manifest[]> {
  return parseAllDocuments(await readInput(io, path)).flatMap((document) => {
    const [broken] = document.errors;
    if (broken !== undefined) throw invalid(path, broken.message);
    const value: unknown = document.toJS();
    return value === null ? [] : [manifestOf(path, value)];
  });
}

function manifestOf(path: string, value: unknown): Manifest {
  const result = NamedSnapshotManifest.safeParse(value);
  if (!result.success) {
    const [issue] = result.error.issues;
    const field = issue?.path.join(".") ?? "";
    throw invalid(path, `${field === "" ? "" : `${field}: `}${issue?.message ?? "it is not a NamedSnapshot"}`);
  }
  if (result.data.metadata.name === undefined) throw invalid(path, "metadata.name: is required");
  // Return the manifest as written, without the schema's defaults: the API server adds those.
  return value as Manifest;
}

function invalid(path: string, why: string): RametError {
  return new RametError("InvalidArgument", `${path} is not a valid NamedSnapshot manifest: ${why}`, {
    hint: "See docs/tasks/snapshots.md for the fields",
  });
}
