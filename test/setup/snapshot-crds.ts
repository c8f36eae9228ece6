import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import type { Manifest } from "../../src/install/manifest.ts";

const Crds = z.object({ crds: z.array(z.unknown()) });

/** All CRDs of external-snapshotter as the build has fetched them, also those of groups, which local clusters do not have. */
export async function allSnapshotCrds(root: string): Promise<Manifest[]> {
  const text = await readFile(join(root, "dist/external-snapshotter/crds.json"), "utf8");
  return Crds.parse(JSON.parse(text)).crds as Manifest[];
}
