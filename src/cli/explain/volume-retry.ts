/** When the snapshot-controller or the sidecar tries again (external-snapshotter v8.7: 1 s, doubled up to 5 minutes). */
export function retriedBy(who: string, now: Date): string {
  return `${who} tries again after growing pauses of at most 5 minutes: by ${instant(now, 5 * 60)}`;
}

/** When every object is processed again, whatever happened. */
export function resyncedBy(now: Date): string {
  return `The snapshot-controller compares them again within 15 minutes: by ${instant(now, 15 * 60)}`;
}

function instant(now: Date, afterSeconds: number): string {
  return `${new Date(now.getTime() + afterSeconds * 1000).toISOString().slice(0, 19)}Z`;
}

/** The command that makes a controller process an object immediately: any change does. */
export function touch(resource: string, { name, namespace }: { name: string; namespace?: string | undefined }): string {
  const where = namespace === undefined ? "" : ` -n ${namespace}`;
  return `kubectl annotate ${resource} ${name}${where} --overwrite ramet.dev/retry=$(date +%s)`;
}
