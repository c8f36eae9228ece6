import { RametError } from "../../../src/base/errors.ts";
import { ownerConflictHint, ownerAnnotation } from "../owner.ts";
import type { Declared, RuntimeFacts } from "./find-runtime.ts";

export type RuntimeMode = "auto" | "install" | "adopt";

/**
 * Whether this program declares the controllers or takes those that run: a pure function of what was found. What a program has
 * declared and declares no more is removed; so whoever may have declared the controllers under an earlier name adopts them only
 * when told to, and what is its own it never does.
 * @param owners which resource of which stack asks, and under which names it did before
 * @throws RametError saying why neither can be
 */
export function planRuntime(
  mode: RuntimeMode,
  facts: RuntimeFacts,
  owners: readonly [string, ...string[]],
): "install" | "adopt" {
  const { sign, declared } = facts;
  if (declared !== undefined && owners.includes(declared.by)) {
    if (mode === "adopt") throw itsOwn();
    return "install";
  }
  if (declared !== undefined && mode !== "adopt") throw ofAnother(declared, owners[0]);
  if (sign === undefined) {
    if (mode === "adopt") throw nothingThere();
    return "install";
  }
  if (mode === "install") throw runsAlready(sign);
  if (facts.missingCrds.length + facts.otherCrds.length > 0) throw otherVersion(facts);
  return "adopt";
}

function nothingThere(): RametError {
  return new RametError("NotFound", "No controllers of Ramet run in this cluster, so there is nothing to adopt", {
    hint: 'Set mode to "install", or start them: ramet local up for one machine',
  });
}

function itsOwn(): RametError {
  const what = "This resource has declared the controllers in this cluster, and adopting them would remove them";
  const hint = `Leave mode out. To give them to another, first take them out of this stack's state (pulumi state delete), and the annotation ${ownerAnnotation} from them`;
  return new RametError("Conflict", what, { hint });
}

function ofAnother({ by, object }: Declared, owner: string): RametError {
  const what = `Controllers of Ramet in this cluster are declared by ${by}, and this is ${owner}`;
  return new RametError("AlreadyExists", what, { hint: ownerConflictHint(owner, object) });
}

function runsAlready(sign: string): RametError {
  return new RametError("AlreadyExists", `Controllers of Ramet run in this cluster already: ${sign}`, {
    hint: 'Two would work against each other: set mode to "adopt", or remove them first',
  });
}

function otherVersion({ missingCrds, otherCrds }: RuntimeFacts): RametError {
  const what = [
    ...(missingCrds.length > 0 ? [`lack ${missingCrds.join(", ")}`] : []),
    ...(otherCrds.length > 0 ? [`have another ${otherCrds.join(", ")}`] : []),
  ].join(" and ");
  return new RametError("NeedNotMet", `The controllers in this cluster are of another version of Ramet: they ${what}`, {
    hint: "Bring them and this package to the same version",
  });
}
