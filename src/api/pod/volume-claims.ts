import * as z from "zod";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { annotations } from "../names/labels.ts";
import type { Volume } from "../schema/pod-template.ts";

/** A volume of a Pod and the PersistentVolumeClaim that it mounts. */
export const VolumeClaim = z.object({
  volume: z.string().describe("The name of the volume in the Pod."),
  claim: z.string().describe("The name of the PersistentVolumeClaim."),
});
export type VolumeClaim = z.infer<typeof VolumeClaim>;

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

/** The volumes of a Pod that mount PersistentVolumeClaims. */
export function volumeClaims(volumes: readonly Record<string, unknown>[], podName: string): VolumeClaim[] {
  return volumes.flatMap((volume) => {
    const { name } = volume;
    const claim = claimOf(volume, podName);
    return typeof name === "string" && claim !== undefined ? [{ volume: name, claim }] : [];
  });
}

/** Kubernetes names the claim of an ephemeral volume after the Pod and the volume. */
function claimOf(volume: Record<string, unknown>, podName: string): string | undefined {
  const claim = volume["persistentVolumeClaim"] as { claimName?: unknown } | null | undefined;
  if (typeof claim?.claimName === "string") return claim.claimName;
  const isEphemeral = volume["ephemeral"] !== undefined && typeof volume["name"] === "string";
  return isEphemeral ? `${podName}-${volume["name"] as string}` : undefined;
}

/** The volumes of a Pod with other claims, by the name of the volume. */
export function withClaims(volumes: readonly Volume[], claims: ReadonlyMap<string, string> = new Map()): Volume[] {
  return volumes.map((volume) => {
    const claim = claims.get(volume.name);
    if (claim === undefined) return volume;
    const { ephemeral: _, ...others } = volume;
    const before = volume["persistentVolumeClaim"] as object | null | undefined;
    return { ...others, persistentVolumeClaim: { ...before, claimName: claim } };
  });
}

const Chosen = z.record(z.string(), z.string());

/**
 * The claims that a clone's volumes mount instead of those of its template, by the name of the volume. The controller writes them
 * when the clone starts. A text that is not its own counts as none.
 */
export function chosenClaims({
  metadata,
}: {
  metadata: { annotations?: Record<string, string> | undefined };
}): ReadonlyMap<string, string> {
  return new Map(Object.entries(parsedJson(Chosen, metadata.annotations?.[annotations.volumeClaims]) ?? {}));
}
