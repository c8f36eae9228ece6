/** The names of the PersistentVolumeClaims that the volumes of a Pod refer to, each once. */
export function volumeClaims(volumes: readonly Record<string, unknown>[], podName: string): string[] {
  return [...new Set(volumes.flatMap((volume) => claimOf(volume, podName) ?? []))];
}

/** Kubernetes names the claim of an ephemeral volume after the Pod and the volume. */
function claimOf(volume: Record<string, unknown>, podName: string): string | undefined {
  const claim = volume["persistentVolumeClaim"] as { claimName?: string } | undefined;
  const isEphemeral = volume["ephemeral"] !== undefined && typeof volume["name"] === "string";
  return claim?.claimName ?? (isEphemeral ? `${podName}-${volume["name"] as string}` : undefined);
}
