import type { Volume } from "../schema/pod-template.ts";

/** The name of a sandbox's PersistentVolumeClaim for one of its claim templates. */
export function claimName(template: string, sandbox: string): string {
  return `${template}-${sandbox}`;
}

/** The volumes of a sandbox's Pod for its claim templates. A template without a name is reported when its claim is created. */
export function claimVolumes(templates: readonly Record<string, unknown>[] | undefined, sandbox: string): Volume[] {
  return (templates ?? []).flatMap((template) => {
    const name = (template["metadata"] as { name?: unknown } | null | undefined)?.name;
    if (typeof name !== "string") return [];
    return [{ name, persistentVolumeClaim: { claimName: claimName(name, sandbox) } }];
  });
}

/** The names of the PersistentVolumeClaims that the volumes of a Pod refer to, each once. */
export function volumeClaims(volumes: readonly Record<string, unknown>[], podName: string): string[] {
  return [...new Set(volumes.flatMap((volume) => claimOf(volume, podName) ?? []))];
}

/** Kubernetes names the claim of an ephemeral volume after the Pod and the volume. */
function claimOf(volume: Record<string, unknown>, podName: string): string | undefined {
  const claim = volume["persistentVolumeClaim"] as { claimName?: unknown } | null | undefined;
  if (typeof claim?.claimName === "string") return claim.claimName;
  const isEphemeral = volume["ephemeral"] !== undefined && typeof volume["name"] === "string";
  return isEphemeral ? `${podName}-${volume["name"] as string}` : undefined;
}
