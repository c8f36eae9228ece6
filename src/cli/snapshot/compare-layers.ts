import type { LayerRef } from "../../api/wire/grant.ts";
import { RametError } from "../../base/errors.ts";
import type { ComparedVersion } from "../../api/snapshot/diff-versions.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { shownName } from "../../base/tar-reader.ts";
import {
  dpkgStatus,
  type LayerEntry,
  type LayerFiles,
  layerLimits,
  pipMetadata,
  pipPackage,
  readLayer,
} from "./layer-files.ts";

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
  /** Only one version has a layer that deletes it. The size of the file, in a lower layer or the image, is not known. */
  deletion?: true;
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
  let { entries, textBytes } = layerLimits;
  const read = async ({ snapshot: { metadata } }: ComparedVersion, ref: LayerRef | undefined) => {
    if (ref === undefined) return undefined;
    const at = { namespace: metadata.namespace, ref };
    const limits = { ...layerLimits, entries, textBytes };
    const found = await readLayer(store, at, { signal, limits }).catch((thrown: unknown) => {
      if (interrupted.aborted) throw thrown;
      const { message } = RametError.from(thrown);
      const why = signal.aborted ? `reading took longer than ${timeoutMilliseconds / 1000} s` : message;
      diff.notes.push(`layer ${ref.checkpointId} is not compared: ${why}`);
      return undefined;
    });
    if (found === undefined) return undefined;
    entries -= found.entries.size + found.directories.size + found.deleted.size;
    textBytes -= found.textBytes;
    return found;
  };
  const [from, to] = [new Merged(), new Merged()];
  for (let index = common; index < Math.max(old.length, now.length); index++) {
    from.add(index + 1, await read(before, old[index]));
    to.add(index + 1, await read(after, now[index]));
  }
  diff.layers = layerChanges(from.root, to.root);
  const dpkg = [from.dpkg(), to.dpkg()] as Pair<Dpkg>;
  for (let index = common - 1; index >= 0 && (dpkg[0] === undefined) !== (dpkg[1] === undefined); index--) {
    const shared = new Merged();
    shared.add(index + 1, await read(after, now[index]));
    const list = shared.dpkg();
    dpkg[0] ??= list;
    dpkg[1] ??= list;
  }
  // With a part of the layers, what only the other version seems to have could be in both.
  if (diff.notes.length === 0) comparePackages(diff, dpkg, [from, to]);
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

type Pair<T> = [before: T, after: T];
type Dpkg = ReadonlyMap<string, string> | undefined;

/** A path in several layers, one above the other. */
interface Node {
  below: Map<string, Node>;
  file?: LayerEntry & { layer: number };
  /** The layer that deletes what lower ones and the image have here. */
  hiddenBy?: number;
}

/** The files of several layers, as a sandbox has them. A tree, so that no path costs more than its length. */
class Merged {
  readonly root: Node = { below: new Map() };
  /** The packages of pip in lower layers that these delete: a version without these layers has them. */
  readonly replaced = new Map<string, Package>();

  add(layer: number, added: LayerFiles | undefined): void {
    if (added === undefined) return;
    for (const path of added.directories) {
      const node = this.#at(path);
      if (node.file !== undefined) node.hiddenBy = layer;
      delete node.file;
    }
    for (const path of added.deleted) {
      const node = this.#at(path);
      const found = node.below.get(pipMetadata)?.file === undefined ? pipPackage(path) : undefined;
      if (found !== undefined) this.replaced.set(placeOf(path, found.name), { kind: "pip", ...found });
      node.below.clear();
      delete node.file;
      node.hiddenBy = layer;
    }
    for (const [path, entry] of added.entries) {
      if (ofIdentity.has(path)) continue;
      const node = this.#at(path);
      node.below.clear();
      node.file = { ...entry, layer };
    }
  }

  /** Each parent is a directory of the layer that is added. */
  #at(path: string): Node {
    let node = this.root;
    for (const part of path.split("/")) {
      const next = node.below.get(part) ?? { below: new Map<string, Node>() };
      node.below.set(part, next);
      node = next;
    }
    return node;
  }

  /** dpkg's list. Undefined: that of a lower layer or of the image. */
  dpkg(): Dpkg {
    let node: Node | undefined = this.root;
    let isHidden = false;
    for (const part of dpkgStatus.split("/")) {
      node = node?.below.get(part);
      isHidden ||= hides(node);
    }
    return node?.file?.dpkg ?? (isHidden ? new Map<string, string>() : undefined);
  }

  /** The packages of pip and npm by their places, so that a package in two places is two. */
  packages(): Map<string, Package> {
    const packages = new Map<string, Package>();
    const visit = (directory: string, { below }: Node) => {
      for (const [name, node] of below) {
        const path = `${directory}${name}`;
        if (node.file?.npm !== undefined) packages.set(path, { kind: "npm", ...node.file.npm });
        const pip = node.below.get(pipMetadata)?.file && pipPackage(path);
        if (pip !== undefined) packages.set(placeOf(path, pip.name), { kind: "pip", ...pip });
        visit(`${path}/`, node);
      }
    };
    visit("", this.root);
    return packages;
  }
}

/** Each sandbox gets its own, also that of a build. */
const ofIdentity = new Set(["etc/hostname", "etc/hosts"]);

function hides(node: Node | undefined): boolean {
  return node?.file !== undefined || node?.hiddenBy !== undefined;
}

function placeOf(directory: string, name: string): string {
  return `${directory.slice(0, directory.lastIndexOf("/") + 1)}${name.toLowerCase()}`;
}

function layerChanges(...roots: Pair<Node>): LayerChange[] {
  const byLayer = new Map<number, FileChange[]>();
  const visit = (path: string, [old, now]: Pair<Node>, isListed: boolean) => {
    const found = contentChange(path, old.file, now.file) ?? (isListed ? undefined : deletion(path, old, now));
    if (found !== undefined) {
      const changes = byLayer.get(found.layer) ?? [];
      byLayer.set(found.layer, changes);
      changes.push(found.change);
    }
    const isBelow = isListed || hides(old) || hides(now);
    for (const name of new Set([...old.below.keys(), ...now.below.keys()]))
      visit(`${path}/${name}`, [old.below.get(name) ?? absent, now.below.get(name) ?? absent], isBelow);
  };
  visit("", roots, false);
  return [...byLayer].sort(([a], [b]) => a - b).map(([layer, changes]) => summary(layer, changes));
}

const absent: Node = { below: new Map() };

interface Found {
  layer: number;
  change: FileChange;
}

function contentChange(path: string, from: Node["file"], to: Node["file"]): Found | undefined {
  const one = to ?? from;
  if (one === undefined || from?.id === to?.id) return undefined;
  const change = from === undefined ? "added" : to === undefined ? "removed" : "changed";
  const sizes = { fromBytes: from?.sizeBytes ?? 0, toBytes: to?.sizeBytes ?? 0 };
  return { layer: one.layer, change: { path: path.slice(1), change, ...sizes } };
}

/** A deletion of what only lower layers or the image have. */
function deletion(path: string, old: Node, now: Node): Found | undefined {
  const layer = now.hiddenBy ?? old.hiddenBy;
  const isSame = (old.hiddenBy === undefined) === (now.hiddenBy === undefined);
  if (layer === undefined || isSame || old.file !== undefined) return undefined;
  const change = old.hiddenBy === undefined ? "removed" : "added";
  return { layer, change: { path: path.slice(1), change, deletion: true, fromBytes: 0, toBytes: 0 } };
}

function summary(layer: number, changes: readonly FileChange[]): LayerChange {
  const sum = (bytes: (change: FileChange) => number) => changes.reduce((total, change) => total + bytes(change), 0);
  const weight = ({ fromBytes, toBytes }: FileChange) => Math.max(fromBytes, toBytes);
  return {
    layer,
    files: changes.length,
    addedBytes: sum(({ toBytes }) => toBytes),
    removedBytes: sum(({ fromBytes }) => fromBytes),
    largest: changes
      .toSorted((a, b) => weight(b) - weight(a) || (a.path < b.path ? -1 : 1))
      .slice(0, mostFiles)
      .map((one) => ({ ...one, path: shownName(one.path) })),
  };
}

function comparePackages(diff: ContentDiff, dpkg: Pair<Dpkg>, [old, now]: Pair<Merged>): void {
  if ((dpkg[0] === undefined) !== (dpkg[1] === undefined)) {
    diff.notes.push("packages of dpkg are not compared: one version has those of its image");
  }
  const changes = [...dpkgChanges(...dpkg), ...otherChanges(old, now)].filter(({ from, to }) => from !== to);
  const order = ({ kind, name }: PackageChange) => `${kind} ${name}`;
  diff.packages = changes.toSorted((a, b) => (order(a) < order(b) ? -1 : 1)).slice(0, mostPackages);
  if (changes.length > mostPackages) diff.notes.push(`${changes.length - mostPackages} more packages differ`);
}

function dpkgChanges(old: Dpkg, now: Dpkg): PackageChange[] {
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
