import type { LayerRef } from "../../api/wire/grant.ts";
import { RametError } from "../../base/errors.ts";
import type { ComparedVersion } from "../../api/snapshot/diff-versions.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { type LayerEntry, type LayerFiles, layerLimits, pipMetadata, pipPackage, readLayer } from "./layer-files.ts";

/** A package that two versions have in one place, each with its version. Null: none is known. */
export interface PackageChange {
  kind: "dpkg" | "pip" | "npm";
  name: string;
  from: string | null;
  to: string | null;
}

/** A file that only one version has in its layers can be in a layer that both share, or in the image, too. */
interface FileChange {
  path: string;
  change: "added" | "removed" | "changed";
  fromBytes: number;
  toBytes: number;
}

/** The changes in one layer: those of the later version, and of the earlier one for files that are removed. */
export interface LayerChange {
  /** Counted from 1, the image's being 0. */
  layer: number;
  files: number;
  addedBytes: number;
  removedBytes: number;
  /** The first ones, those with the most bytes first. */
  largest: FileChange[];
}

export interface ContentDiff {
  layers: LayerChange[];
  packages: PackageChange[];
  /** What is not compared, and why. */
  notes: string[];
}

export const mostFiles = 20;
const mostPackages = 500;
const timeoutMilliseconds = 120_000;

/** Compares the files of two versions, layer by layer, and the packages in them. What cannot be read becomes a note. */
export async function compareLayers(
  store: CheckpointStore,
  [before, after]: readonly [ComparedVersion, ComparedVersion],
  interrupted: AbortSignal,
): Promise<ContentDiff> {
  const diff: ContentDiff = { layers: [], packages: [], notes: [] };
  const signal = AbortSignal.any([interrupted, AbortSignal.timeout(timeoutMilliseconds)]);
  const [old, now] = [layersOf(before), layersOf(after)];
  const different = old.findIndex((one, index) => one.manifestDigest !== now[index]?.manifestDigest);
  const common = different < 0 ? Math.min(old.length, now.length) : different;
  let entriesLeft = layerLimits.entries;
  const read = async ({ snapshot: { metadata } }: ComparedVersion, ref: LayerRef | undefined) => {
    if (ref === undefined) return undefined;
    const at = { namespace: metadata.namespace, ref };
    const limits = { ...layerLimits, entries: entriesLeft };
    const found = await readLayer(store, at, { signal, limits }).catch((thrown: unknown) => {
      if (interrupted.aborted) throw thrown;
      const { message } = RametError.from(thrown);
      const why = signal.aborted ? `reading took longer than ${timeoutMilliseconds / 1000} s` : message;
      diff.notes.push(`layer ${ref.checkpointId} is not compared: ${why}`);
      return undefined;
    });
    entriesLeft -= (found?.entries.size ?? 0) + (found?.deleted.size ?? 0);
    return found;
  };
  const [from, to] = [new Merged(), new Merged()];
  for (let index = common; index < Math.max(old.length, now.length); index++) {
    from.add(index + 1, await read(before, old[index]));
    to.add(index + 1, await read(after, now[index]));
  }
  diff.layers = layerChanges(from.files, to.files);
  for (let index = common - 1; index >= 0 && (from.dpkg === undefined) !== (to.dpkg === undefined); index--) {
    const { dpkg } = (await read(after, now[index])) ?? {};
    from.dpkg ??= dpkg;
    to.dpkg ??= dpkg;
  }
  // With a part of the layers, what only the other version seems to have could be in both.
  if (diff.notes.length === 0) comparePackages(diff, from, to);
  else diff.notes.push("packages are not compared, because a layer is not");
  if ([before, after].some(({ checkpoint }) => checkpoint?.status?.ramet?.contents?.includes("memory") === true))
    diff.notes.push("files that were written from the first start or waitFor step on are in the memory: not compared");
  return diff;
}

/** The layers above the image, in their order. */
function layersOf({ checkpoint }: ComparedVersion): readonly LayerRef[] {
  return checkpoint?.status?.ramet?.parts?.find(({ layers }) => layers !== undefined)?.layers ?? [];
}

interface Package {
  kind: PackageChange["kind"];
  name: string;
  version: string;
}

/** The files of several layers, as a sandbox has them. */
class Merged {
  readonly files = new Map<string, LayerEntry & { layer: number }>();
  dpkg: ReadonlyMap<string, string> | undefined;
  /** The packages of pip in lower layers that these delete: a version without these layers has them. */
  readonly replaced = new Map<string, Package>();

  add(layer: number, added: LayerFiles | undefined): void {
    if (added === undefined) return;
    const { entries, deleted, dpkg } = added;
    for (const path of deleted) {
      const metadata = `${path}/${pipMetadata}`;
      const found = this.files.has(metadata) ? undefined : pipPackage(metadata);
      if (found !== undefined) this.replaced.set(placeOf(path, found.name), { kind: "pip", ...found });
    }
    if (deleted.size > 0) {
      for (const path of this.files.keys()) if (isBelow(path, deleted)) this.files.delete(path);
    }
    for (const [path, entry] of entries) this.files.set(path, { ...entry, layer });
    this.dpkg = dpkg ?? this.dpkg;
  }

  /** The packages of pip and npm by their places, so that a package in two places is two. */
  packages(): Map<string, Package> {
    const packages = new Map<string, Package>();
    for (const [path, { npm }] of this.files) {
      const pip = path.endsWith(`/${pipMetadata}`) ? pipPackage(path) : undefined;
      if (npm !== undefined) packages.set(path, { kind: "npm", ...npm });
      if (pip !== undefined)
        packages.set(placeOf(path.slice(0, -pipMetadata.length - 1), pip.name), { kind: "pip", ...pip });
    }
    return packages;
  }
}

function placeOf(directory: string, name: string): string {
  return `${directory.slice(0, directory.lastIndexOf("/") + 1)}${name.toLowerCase()}`;
}

function isBelow(path: string, deleted: ReadonlySet<string>): boolean {
  for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
    if (deleted.has(path.slice(0, end))) return true;
  }
  return false;
}

function layerChanges(old: Merged["files"], now: Merged["files"]): LayerChange[] {
  const byLayer = new Map<number, FileChange[]>();
  for (const path of new Set([...old.keys(), ...now.keys()])) {
    const [from, to] = [old.get(path), now.get(path)];
    if (from?.id === to?.id) continue;
    const layer = (to ?? from)?.layer ?? 0;
    const changes = byLayer.get(layer) ?? [];
    byLayer.set(layer, changes);
    changes.push(fileChange(path, from, to));
  }
  return [...byLayer].sort(([a], [b]) => a - b).map(([layer, changes]) => summary(layer, changes));
}

function fileChange(path: string, from: LayerEntry | undefined, to: LayerEntry | undefined): FileChange {
  const change = from === undefined ? "added" : to === undefined ? "removed" : "changed";
  return { path, change, fromBytes: from?.sizeBytes ?? 0, toBytes: to?.sizeBytes ?? 0 };
}

function summary(layer: number, changes: readonly FileChange[]): LayerChange {
  const sum = (bytes: (change: FileChange) => number) => changes.reduce((total, change) => total + bytes(change), 0);
  const weight = ({ fromBytes, toBytes }: FileChange) => Math.max(fromBytes, toBytes);
  return {
    layer,
    files: changes.length,
    addedBytes: sum(({ toBytes }) => toBytes),
    removedBytes: sum(({ fromBytes }) => fromBytes),
    largest: changes.toSorted((a, b) => weight(b) - weight(a) || (a.path < b.path ? -1 : 1)).slice(0, mostFiles),
  };
}

function comparePackages(diff: ContentDiff, old: Merged, now: Merged): void {
  if ((old.dpkg === undefined) !== (now.dpkg === undefined)) {
    diff.notes.push("packages of dpkg are not compared: one version has those of its image");
  }
  const changes = [...dpkgChanges(old.dpkg, now.dpkg), ...otherChanges(old, now)].filter(({ from, to }) => from !== to);
  const order = ({ kind, name }: PackageChange) => `${kind} ${name}`;
  diff.packages = changes.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)).slice(0, mostPackages);
  if (changes.length > mostPackages) diff.notes.push(`${changes.length - mostPackages} more packages differ`);
}

function dpkgChanges(old: Merged["dpkg"], now: Merged["dpkg"]): PackageChange[] {
  if (old === undefined || now === undefined) return [];
  const names = new Set([...old.keys(), ...now.keys()]);
  return [...names].map((name) => ({ kind: "dpkg", name, from: old.get(name) ?? null, to: now.get(name) ?? null }));
}

function otherChanges(old: Merged, now: Merged): PackageChange[] {
  const [before, after] = [old.packages(), now.packages()];
  const places = [before, after, old.replaced, now.replaced].flatMap((each) => [...each.keys()]);
  return [...new Set(places)].flatMap((place): PackageChange[] => {
    const from = before.get(place) ?? (old.replaced.has(place) ? undefined : now.replaced.get(place));
    const to = after.get(place) ?? (now.replaced.has(place) ? undefined : old.replaced.get(place));
    const known = from ?? to;
    if (known === undefined) return [];
    return [{ kind: known.kind, name: known.name, from: from?.version ?? null, to: to?.version ?? null }];
  });
}
