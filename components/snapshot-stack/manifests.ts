import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import type { StackPlan } from "../../provider/handlers/snapshot-stack/plan-stack.ts";
import { RametError } from "../../src/base/errors.ts";
import { waitForConditions } from "../await.ts";
import type { SnapshotStackArgs } from "./args.ts";
import { snapshotControllerManifests } from "./controller-manifests.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import { controllerNamespace } from "./stack-request.ts";

/** The CRDs that a plan declares. */
export async function crdManifests(plan: StackPlan, annotations: Record<string, string>): Promise<Manifest[]> {
  if (!plan.crds && !plan.groupCrds) return [];
  const { crds } = await upstreamCrds();
  const isOfGroups = ({ metadata }: Manifest): boolean => metadata.name.endsWith(".groupsnapshot.storage.k8s.io");
  return crds
    .filter((crd) => (isOfGroups(crd) ? plan.groupCrds : plan.crds))
    .map((crd) => ({
      ...crd,
      metadata: {
        ...crd.metadata,
        annotations: {
          ...crd.metadata.annotations,
          ...annotations,
          ...waitForConditions("Established"),
        },
      },
    }));
}

/** The manifests of the controller, if the plan declares one. */
export async function controllerManifests(
  plan: StackPlan,
  { controller = {}, groupSnapshots = false }: SnapshotStackArgs,
  annotations: Record<string, string>,
): Promise<Manifest[]> {
  if (!plan.controller) return [];
  const { version } = await upstreamCrds();
  const { namespace = controllerNamespace, replicas = 2, workers = 50, requestsPerSecond = 100 } = controller;
  const image = controller.image ?? `registry.k8s.io/sig-storage/snapshot-controller:${version}`;
  return snapshotControllerManifests({
    namespace,
    annotations,
    image,
    replicas,
    workers,
    requestsPerSecond,
    groupSnapshots,
  });
}

/** The CRDs from the Go module of external-snapshotter, with its version. */
interface UpstreamCrds {
  version: string;
  crds: Manifest[];
}

/**
 * Reads the CRDs that the build packed (`scripts/snapshot-crds.mjs`).
 * @throws RametError `NotFound` if the build did not
 */
export async function upstreamCrds(): Promise<UpstreamCrds> {
  // Relative to the bundle, and to the sources.
  for (const up of ["..", "../../dist"]) {
    const text = await read(join(import.meta.dirname, up, "external-snapshotter", "crds.json"));
    if (text !== undefined) return Packed.parse(JSON.parse(text));
  }
  throw new RametError("NotFound", "This package does not contain the CRDs of external-snapshotter", {
    hint: "It was built without Go or without a network; run npm run build again with both",
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
