import { ownVolumes } from "../../api/pod/cell-pod.ts";
import { chosenClaims, volumeClaims, type VolumeClaim } from "../../api/pod/volume-claims.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { RametError } from "../../base/errors.ts";
import type { ResolvedTemplate } from "../origin/resolve-template.ts";

/** The claims of a sandbox's Pod, or of the next one if it has none. */
export function claimsOfSandbox(
  sandbox: Sandbox,
  template: ResolvedTemplate | { problem: RametError },
  pod: Pod | undefined,
): VolumeClaim[] {
  const { name } = sandbox.metadata;
  if (pod !== undefined) return volumeClaims(pod.spec.volumes ?? [], name);
  if ("problem" in template) return [];
  const owner = { metadata: sandbox.metadata, spec: { volumeClaimTemplates: template.volumeClaims } };
  const chosen = chosenClaims(sandbox);
  return volumeClaims(ownVolumes(owner, template.template), name).map(({ volume, claim }) => ({
    volume,
    claim: chosen.get(volume) ?? claim,
  }));
}
