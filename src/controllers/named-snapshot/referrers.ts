import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { SnapshotVersion } from "../../api/kinds/named-snapshot-status.ts";
import type { Lookups } from "./lookups.ts";

/** By version: who refers to it, so that it is kept. Whoever follows the name refers to the version that serves. */
export function referrersOf({ metadata, status }: NamedSnapshot, lookups: Lookups): Map<number, string[]> {
  return new Map((status?.versions ?? []).map((version) => [version.version, ofVersion(metadata, version, lookups)]));
}

function ofVersion(
  { name, namespace }: { name: string; namespace: string },
  { version, digest, checkpointId }: SnapshotVersion,
  lookups: Lookups,
): string[] {
  const texts = [`${name}@${version}`, `${name}@${digest}`, checkpointId];
  const sandboxes = texts.flatMap((text) => lookups.sandboxesFrom(namespace, text)).filter(isAlive);
  const sets = texts.flatMap((text) => lookups.setsFrom(namespace, text));
  const children = lookups
    .snapshotsFrom(namespace, `snapshot/${name}`)
    .filter(({ spec: { from } }) => from.snapshot?.version === version || from.snapshot?.digest === digest);
  return names({ Sandbox: sandboxes, SandboxSet: sets, NamedSnapshot: children });
}

/** Who names the snapshot, at whatever version, and could not do without it. A clone that runs could. */
export function followersOf({ metadata: { name, namespace } }: NamedSnapshot, lookups: Lookups): string[] {
  return names({
    NamedSnapshot: lookups
      .snapshotsFrom(namespace, `snapshot/${name}`)
      .filter(({ metadata }) => metadata.name !== name),
    SandboxSet: lookups.setsNaming(namespace, name),
  });
}

/** One that has ended is no clone any more. */
function isAlive({
  status,
  metadata,
}: {
  status?: { phase?: string | undefined } | undefined;
  metadata: { deletionTimestamp?: string | undefined };
}) {
  return metadata.deletionTimestamp === undefined && status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

function names(byKind: Record<string, { metadata: { name: string } }[]>): string[] {
  const all = Object.entries(byKind).flatMap(([kind, objects]) =>
    objects.map(({ metadata }) => `${kind} ${metadata.name}`),
  );
  return [...new Set(all)];
}
