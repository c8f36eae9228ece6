import * as z from "zod";
import type { Finding } from "../../../src/preflight/finding.ts";
import type { ObservedObject } from "./observed-cluster.ts";

/**
 * Reports objects of a removed controller. Pulumi's Kubernetes provider fails to create an object that exists, which
 * would abort the update.
 */
export function orphanFindings(
  { owners }: { owners: readonly string[] },
  plan: { controller: boolean },
  objects: readonly ObservedObject[],
): Finding[] {
  const others = objects.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  if (!plan.controller || others.length === 0) return [];
  const managers = [...new Set(others.map(({ manager }) => manager))].join(" and ");
  const message = `objects of a snapshot-controller already exist and belong to ${managers}: ${others.map(asText).join(", ")}`;
  return [
    {
      check: "snapshot-controller",
      code: "AlreadyExists",
      message,
      action: `Delete them first: ${removal(others)}`,
      level: "error",
    },
  ];
}

/** The command that deletes all objects. */
export function removal(objects: readonly ObservedObject[]): string {
  const namespace = objects.find((one) => one.namespace !== undefined)?.namespace;
  return [
    "kubectl delete",
    ...(namespace === undefined ? [] : ["--namespace", namespace]),
    ...objects.map(asText),
  ].join(" ");
}

function asText({ kind, name }: ObservedObject): string {
  return `${kind.toLowerCase()}/${name}`;
}

/**
 * Whether a VolumeSnapshot or VolumeSnapshotContent violates the validation rules of external-snapshotter's CRDs since
 * v8. Existing objects that do stay, but cannot be changed.
 */
export function breaksRules(object: unknown): boolean {
  const { kind, spec } = Old.parse(object);
  const { source, volumeSnapshotRef, volumeSnapshotClassName } = spec;
  if (kind === "VolumeSnapshotContent") {
    const isBound = isThere(volumeSnapshotRef?.name) && isThere(volumeSnapshotRef?.namespace);
    return !isBound || isThere(source.volumeHandle) === isThere(source.snapshotHandle);
  }
  return (
    volumeSnapshotClassName === "" ||
    isThere(source.persistentVolumeClaimName) === isThere(source.volumeSnapshotContentName)
  );
}

/** The rules check whether a field is set, not its value. */
function isThere(field: string | undefined): boolean {
  return field !== undefined;
}

const Text = z.string().optional();
const Old = z.looseObject({
  kind: z.string(),
  spec: z.looseObject({
    source: z
      .looseObject({
        persistentVolumeClaimName: Text,
        volumeSnapshotContentName: Text,
        volumeHandle: Text,
        snapshotHandle: Text,
      })
      .default({}),
    volumeSnapshotRef: z.looseObject({ name: Text, namespace: Text }).optional(),
    volumeSnapshotClassName: Text,
  }),
});
