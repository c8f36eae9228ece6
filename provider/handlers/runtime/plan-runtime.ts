import { RametError } from "../../../src/base/errors.ts";
import { ownedByOthers } from "../../../src/kube/other-controllers.ts";
import { ownerConflictHint } from "../owner.ts";
import { ownerAnnotation } from "../../../src/api/names/labels.ts";
import type { Declared, RuntimeFacts } from "./find-runtime.ts";

export type RuntimeMode = "auto" | "install" | "adopt" | "beside";

/**
 * Decides whether this program declares the controllers or adopts running ones: a pure function of the cluster's state.
 * Pulumi deletes objects that a program no longer declares. So a resource never adopts its own controllers, and adopts
 * those that it may have declared under an earlier name only with `mode: "adopt"`.
 * @param owners the resource under its current name, followed by its earlier names
 * @throws RametError if neither is possible
 */
export function planRuntime(
  mode: RuntimeMode,
  facts: RuntimeFacts,
  owners: readonly [string, ...string[]],
): Exclude<RuntimeMode, "auto"> {
  const { otherControllers } = facts;
  if (mode === "beside") {
    modeFor("install", facts, owners);
    return "beside";
  }
  const planned = modeFor(mode, facts, owners);
  if (planned === "install" && otherControllers.length > 0) {
    throw ownedByOthers("Cannot install the controllers", otherControllers);
  }
  return planned;
}

function modeFor(
  mode: Exclude<RuntimeMode, "beside">,
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
  return new RametError("NotFound", "Cannot adopt: no Ramet controllers run in this cluster", {
    hint: 'Set mode to "install", or start controllers; on one machine with: ramet local up',
  });
}

function itsOwn(): RametError {
  const what = "Cannot adopt: this resource declares the controllers in this cluster, and adopting would delete them";
  const hint = `Remove the argument mode. To hand the controllers over, first delete them from this stack's state (pulumi state delete) and remove their annotation ${ownerAnnotation}`;
  return new RametError("Conflict", what, { hint });
}

function ofAnother({ by, object }: Declared, owner: string): RametError {
  const what = `The Ramet controllers in this cluster are declared by ${by}, not by ${owner}`;
  return new RametError("AlreadyExists", what, { hint: ownerConflictHint(owner, object) });
}

function runsAlready(sign: string): RametError {
  return new RametError("AlreadyExists", `Ramet controllers already run in this cluster: ${sign}`, {
    hint: 'Set mode to "adopt", or remove them first, because two installations would conflict',
  });
}

function otherVersion({ missingCrds, otherCrds }: RuntimeFacts): RametError {
  const what = [
    ...(missingCrds.length > 0 ? [`lack ${missingCrds.join(", ")}`] : []),
    ...(otherCrds.length > 0 ? [`use another version of ${otherCrds.join(", ")}`] : []),
  ].join(" and ");
  return new RametError(
    "NeedNotMet",
    `The controllers in this cluster belong to another version of Ramet: they ${what}`,
    {
      hint: "Use the same version of the controllers and of this package",
    },
  );
}
