import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RametError } from "../../src/base/errors.ts";
import type { Manifest } from "./manifest.ts";

/** The CRDs of external-snapshotter, as its Go module has them, and of which version they are. */
export interface UpstreamCrds {
  version: string;
  crds: Manifest[];
}

/** They are packed when this package is built (`scripts/snapshot-crds.mjs`). @throws RametError `NotFound` where they were not */
export async function upstreamCrds(): Promise<UpstreamCrds> {
  // Beside the bundle, and from the sources.
  for (const up of ["..", "../../dist"]) {
    const text = await read(join(import.meta.dirname, up, "external-snapshotter", "crds.json"));
    if (text !== undefined) return Packed.parse(JSON.parse(text));
  }
  throw new RametError("NotFound", "The CRDs of external-snapshotter are not in this package", {
    hint: "It was built from sources without Go or without a network: repeat npm run build with both",
  });
}

function read(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}

const Packed = z.object({
  version: z.string(),
  crds: z.array(
    z.looseObject({
      apiVersion: z.string(),
      kind: z.literal("CustomResourceDefinition"),
      metadata: z.looseObject({ name: z.string(), annotations: z.record(z.string(), z.string()).default({}) }),
      spec: z.looseObject({ group: z.string() }),
    }),
  ),
});
