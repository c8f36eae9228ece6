import { claimName, claimVolumes, volumeClaims, type VolumeClaim, chosenClaims } from "../../api/pod/volume-claims.ts";
import { type Checkpoint, type CheckpointPart, volumeParts } from "../../api/kinds/checkpoint.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import { annotations } from "../../api/names/labels.ts";
import type { VolumesOnRestore } from "../../api/names/volumes-on-restore.ts";
import { PodTemplateSpec, type Volume } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import type { Cache } from "../cluster/cache.ts";
import { ownVolumes } from "../../api/pod/cell-pod.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { ResolvedTemplate } from "../origin/resolve-template.ts";

/** The part of a checkpoint that describes the volumes of its source. */
export interface CheckpointVolumes {
  id: string;
  /** The claims of the source whose data the checkpoint does not contain. */
  missing: readonly VolumeClaim[];
  /** The parts that are volumes, of which a clone gets new claims. */
  captured: readonly CheckpointPart[];
}

/** @param checkpoint undefined: there is none, and nothing is missing */
export function volumesOf(checkpoint: Checkpoint | undefined): CheckpointVolumes {
  const { checkpointId: id = "", ramet } = checkpoint?.status ?? {};
  return { id, missing: ramet?.volumes ?? [], captured: volumeParts(ramet?.parts) };
}

/** The claims of a checkpoint's source, by the template that is kept with the checkpoint. */
export function keptVolumes(
  { metadata, spec: { sandboxName, podName = "" } }: Checkpoint,
  cache: Pick<Cache, "templatesOwnedBy">,
): VolumeClaim[] {
  return cache.templatesOwnedBy(metadata.uid).flatMap(({ spec }) => claimsOfTemplate(spec, sandboxName ?? podName));
}

/** The claims of a sandbox that is made from a template. An invalid field of the template is reported when it is used. */
export function claimsOfTemplate(
  { template, volumeClaimTemplates }: Pick<SandboxTemplateSpec, "template" | "volumeClaimTemplates">,
  sandbox: string,
): VolumeClaim[] {
  const volumes = PodTemplateSpec.safeParse(template).data?.spec.volumes ?? [];
  return volumeClaims([...volumes, ...claimVolumes(volumeClaimTemplates, sandbox)], sandbox);
}

/** The claims that a clone's volumes mount instead of those of its template, by the name of the volume. */
export interface RestoredVolumes {
  claims: ReadonlyMap<string, string>;
  /** New claims with the spec of an existing one, by name: for volumes whose claim the template names. */
  copies: ReadonlyMap<string, string>;
  /** Existing claims of the source. */
  shared: readonly string[];
  /** The part of the checkpoint that holds the data of a new claim, by the name of the claim. */
  filled: ReadonlyMap<string, CheckpointPart>;
}

export const noRestoredVolumes: RestoredVolumes = {
  claims: new Map(),
  copies: new Map(),
  shared: [],
  filled: new Map(),
};

interface CloneVolumes {
  /** The name of the clone. */
  name: string;
  /** Those of the clone's Pod, by its template and its claim templates. */
  volumes: readonly Volume[];
}

/**
 * The claims that the volumes of a clone mount: new claims with the data that the checkpoint has, and for the others what was chosen. A claim
 * that the clone's own template names, and that is not the source's, is kept if the checkpoint has no data for its volume.
 * @throws RametError `VolumesNotCaptured` without a choice; `InvalidArgument` for a volume that the source does not have;
 *   `TemplateMismatch` if the clone lacks a captured volume
 */
export function restoredVolumes(
  checkpoint: CheckpointVolumes,
  choice: VolumesOnRestore | undefined,
  clone: CloneVolumes,
): RestoredVolumes {
  const { claims, filled } = filledVolumes(checkpoint, clone);
  const volumes = clone.volumes.filter(
    ({ name }) => !checkpoint.captured.some(({ volume }) => volume?.volume === name),
  );
  const others = chosenVolumes(checkpoint, choice, { ...clone, volumes });
  return { ...others, claims: new Map([...others.claims, ...claims]), filled };
}

/**
 * The claims that the volumes of a sandbox mount after a rollback: new claims with the data that the checkpoint has, and for the others the same
 * as before. The old claims exist until the sandbox runs.
 * @param request identifies the rollback, so that each has claims of its own
 * @throws RametError `TemplateMismatch` if the sandbox lacks a captured volume
 */
export function rolledBackVolumes(
  checkpoint: CheckpointVolumes,
  before: RestoredVolumes,
  sandbox: CloneVolumes & { request: string },
): RestoredVolumes {
  const { claims, filled } = filledVolumes(checkpoint, sandbox, `-${sandbox.request.slice(0, requestDigits)}`);
  return { ...before, claims: new Map([...before.claims, ...claims]), filled };
}

const requestDigits = 8;

/**
 * The claims that get data of the checkpoint. Each clone has its own, also where the template names one.
 * @param suffix of the names of the claims
 */
function filledVolumes(
  { id, captured }: CheckpointVolumes,
  { name, volumes }: CloneVolumes,
  suffix = "",
): Pick<RestoredVolumes, "claims" | "filled"> {
  const own = new Map(volumeClaims(volumes, name).map(({ volume, claim }) => [volume, claim]));
  const claims = new Map<string, string>();
  const filled = new Map<string, CheckpointPart>();
  for (const part of captured) {
    const { volume = "" } = part.volume ?? {};
    if (!own.has(volume)) throw noSuchVolume(id, volume);
    const claim = `${claimName(volume, name)}${suffix}`;
    filled.set(claim, part);
    if (own.get(volume) !== claim) claims.set(volume, claim);
  }
  return { claims, filled };
}

function chosenVolumes(
  checkpoint: Pick<CheckpointVolumes, "id" | "missing">,
  choice: VolumesOnRestore | undefined,
  { name, volumes }: CloneVolumes,
): Omit<RestoredVolumes, "filled"> {
  const { missing } = checkpoint;
  if (missing.length === 0) return noRestoredVolumes;
  if (choice === undefined) throw notChosen(checkpoint);
  const ofSource = new Set(missing.map(({ claim }) => claim));
  const own = volumeClaims(volumes, name);
  const named = new Set(
    own.filter(({ volume, claim }) => isNamed(volumes, volume, claim, name)).map(({ claim }) => claim),
  );
  if (choice === "Empty") {
    const replaced = own.filter(({ claim }) => named.has(claim) && ofSource.has(claim));
    const claims = new Map(replaced.map(({ volume }) => [volume, claimName(volume, name)]));
    return {
      claims,
      copies: new Map(replaced.map(({ volume, claim }) => [claimName(volume, name), claim])),
      shared: [],
    };
  }
  const claims = new Map(
    own.flatMap(({ volume, claim }): [string, string][] => {
      if (named.has(claim)) return ofSource.has(claim) ? [[volume, claim]] : [];
      const found = missing.find((one) => one.volume === volume);
      if (found === undefined) throw noCounterpart(volume, missing);
      return [[volume, found.claim]];
    }),
  );
  return { claims, copies: new Map(), shared: [...new Set(claims.values())] };
}

/** Whether the template names the claim, rather than having one made for each sandbox. */
function isNamed(volumes: readonly Volume[], volume: string, claim: string, sandbox: string): boolean {
  const isMade = claim === claimName(volume, sandbox);
  return !isMade && volumes.some(({ name, ephemeral }) => name === volume && ephemeral === undefined);
}

/**
 * A restore in place keeps the volumes of the sandbox, whatever they contain. Why that is not what was requested; undefined if it
 * is: with `Shared`, they are the source's; with `Empty`, they are not.
 */
export function inPlaceProblem(
  checkpoint: CheckpointVolumes,
  choice: VolumesOnRestore | undefined,
  own: readonly VolumeClaim[],
): RametError | undefined {
  const { id, missing } = checkpoint;
  if (missing.length === 0) return undefined;
  if (choice === undefined) return notChosen(checkpoint);
  const ofSource = new Set(missing.map(({ claim }) => claim));
  const others = own.filter(({ claim }) => ofSource.has(claim) !== (choice === "Shared"));
  if (others.length === 0) return undefined;
  const names = listed(others.map(({ claim }) => claim));
  const [what, hint] =
    choice === "Shared"
      ? [
          `the claims ${names} of the sandbox are not those of the checkpoint's source`,
          `Set ${key} to Empty to keep them`,
        ]
      : [
          `the claims ${names} of the sandbox are also the source's, and are not emptied`,
          `Set ${key} to Shared to keep them`,
        ];
  return new RametError("VolumesNotCaptured", `The checkpoint ${id} cannot be restored in place: ${what}`, {
    hint: `${hint}, or create a clone of the checkpoint, which gets other claims`,
  });
}

/** A sandbox that lacks a volume for which a checkpoint has data. */
export function noSuchVolume(id: string, volume: string): RametError {
  return new RametError(
    "TemplateMismatch",
    `The sandbox cannot be restored from the checkpoint ${id}: its template has no volume ${volume} that is a PersistentVolumeClaim`,
    { hint: "Give the sandbox the template of the checkpoint's source, or omit spec.template to use that template" },
  );
}

function notChosen({ id, missing }: Pick<CheckpointVolumes, "id" | "missing">): RametError {
  const names = listed(missing.map(({ claim }) => claim));
  return new RametError(
    "VolumesNotCaptured",
    `The checkpoint ${id} does not contain the data of the PersistentVolumeClaims ${names}, and the request does not say which volumes to use`,
    { hint: `Set the annotation ${key} to Empty for new claims, or to Shared for the claims of the source` },
  );
}

const key = annotations.volumesOnRestore;

function noCounterpart(volume: string, missing: readonly VolumeClaim[]): RametError {
  const names = listed(missing.map((one) => one.volume));
  return new RametError(
    "InvalidArgument",
    `The volume ${volume} cannot be shared: the source has the volumes ${names}`,
    { hint: `Give the volume the name of the source's, or set ${key} to Empty` },
  );
}

/** A message of a condition has at most 32,768 characters, and a name up to 253. */
const mostListed = 100;

/** The names, each once, as a part of a sentence. */
export function listed(names: readonly string[]): string {
  const all = [...new Set(names)];
  const more = all.length - mostListed;
  return all.slice(0, mostListed).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** The claims of a sandbox's Pod, or of the next one if it has none. */
export function claimsOfSandbox(
  sandbox: Sandbox,
  template: ResolvedTemplate | { problem: RametError },
  pod: Pod | undefined,
): VolumeClaim[] {
  const { name } = sandbox.metadata;
  if (pod !== undefined) return volumeClaims(pod.spec.volumes ?? [], name);
  if ("problem" in template) return [];
  const chosen = chosenClaims(sandbox);
  return volumeClaims(ownVolumes(name, template), name).map(({ volume, claim }) => ({
    volume,
    claim: chosen.get(volume) ?? claim,
  }));
}
