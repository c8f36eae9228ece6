import { chmod, link, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import type { DirectoryGrant } from "../../api/cell/grant.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { RametError } from "../../base/errors.ts";
import { NamespaceName } from "../checkpoint-id.ts";
import { refused } from "../grant-check.ts";
import { ownerFile } from "../owner.ts";
import { readSmallFile, statOf, syncDirectories, unless, writeDurably } from "./durable.ts";
import { doomedPrefix, type Layout, layoutOf, requireRoot } from "./layout.ts";

const Marker = z.object({ v: z.literal(1), namespace: z.string() });

/** Makes the folder of a namespace, or finds it made. The store's root must exist: an unmounted disk is not filled. */
export async function makeNamespaceDirectory(root: string, path: string, namespace: string): Promise<Layout> {
  const layout = layoutOf(path);
  if ((await readMarker(layout)) === namespace) return layout;
  await unless(mkdir(path, { mode: 0o700 }), "EEXIST");
  await requireDirectories(path);
  for (const directory of [layout.contentDirectory, layout.checkpoints, layout.staging]) {
    await mkdir(directory, { recursive: true, mode: 0o700 });
  }
  await chmod(path, 0o700);
  const draft = layout.stagingEntry(doomedPrefix);
  await writeDurably(draft, Buffer.from(canonicalJson({ v: 1, namespace })));
  await unless(link(draft, layout.marker), "EEXIST");
  await rm(draft, { force: true });
  await syncDirectories([path, root]);
  return layout;
}

/**
 * The folder that a grant names, once it is found to be the namespace's own, with no link in it that leads elsewhere.
 * Errors: `StoreUnavailable`, `GrantInvalid`.
 */
export async function openNamespaceDirectory(grant: DirectoryGrant): Promise<Layout> {
  if (!grant.path.startsWith("/") || grant.path.split("/").includes("..")) {
    throw refused(grant, `its path ${grant.path} is not absolute or climbs`);
  }
  const layout = layoutOf(grant.path);
  const directories = requireDirectories(layout.path, layout.contentDirectory, layout.checkpoints, layout.staging);
  // What the marker says is told first.
  directories.catch(() => undefined);
  const namespace = await readMarker(layout);
  if (namespace === undefined) {
    throw new RametError("StoreUnavailable", `store folder ${grant.path} cannot be used: it is no namespace's folder`, {
      hint: "Look whether the store is mounted at this path.",
    });
  }
  if (namespace !== grant.namespace) throw refused(grant, `${grant.path} belongs to namespace ${namespace}`);
  await directories;
  return layout;
}

/** Whether `path` is a namespace's folder, by its marker. */
export async function namespaceOf(path: string): Promise<string | undefined> {
  return readMarker(layoutOf(path));
}

/** Throws unless each path is a folder itself and not a link to one. */
export async function requireDirectories(...paths: string[]): Promise<void> {
  const all = await Promise.all(paths.map(async (path) => ({ path, stats: await statOf(path) })));
  for (const { path, stats } of all) {
    if (stats?.isDirectory() === true) continue;
    const why = stats === undefined ? "it is missing" : "it is not a folder";
    throw new RametError("StoreUnavailable", `store folder ${path} cannot be used: ${why}`, {
      hint: "Look whether the store's folder exists and its file system is mounted.",
    });
  }
}

async function readMarker(layout: Layout): Promise<string | undefined> {
  const bytes = await unless(readSmallFile(layout.marker, 4096), "ENOTDIR", "ELOOP");
  if (bytes === undefined) return undefined;
  try {
    return Marker.parse(JSON.parse(bytes.toString("utf8"))).namespace;
  } catch (error) {
    throw new RametError(
      "StoreUnavailable",
      `store folder ${layout.path} cannot be used: namespace.json is not legal`,
      {
        hint: 'Bring the file back: {"v":1,"namespace":"<name of the folder>"}.',
        cause: error,
      },
    );
  }
}

interface Namespaces {
  found: { namespace: string; layout: Layout }[];
  /** Paths in the root that are no namespace's folder. */
  foreign: string[];
}

/** All namespaces in a store, by the markers in their folders. */
export async function namespacesIn(root: string): Promise<Namespaces> {
  await requireRoot(root);
  const namespaces: Namespaces = { found: [], foreign: [] };
  for (const entry of await readdir(root, { withFileTypes: true })) {
    if (entry.name === ownerFile) continue;
    const path = join(root, entry.name);
    const legal = entry.isDirectory() && NamespaceName.safeParse(entry.name).success;
    if (!legal || (await namespaceOf(path)) !== entry.name) {
      namespaces.foreign.push(path);
      continue;
    }
    const layout = layoutOf(path);
    await requireDirectories(layout.contentDirectory, layout.checkpoints, layout.staging);
    namespaces.found.push({ namespace: entry.name, layout });
  }
  return namespaces;
}
