import { RametError } from "../../../src/api/errors.ts";
import type { RuntimeFacts } from "./find-runtime.ts";

export type RuntimeMode = "auto" | "install" | "adopt";

/**
 * Whether this program declares the controllers or takes those that run: a pure function of what was found.
 * @param owner which resource of which stack asks
 * @throws RametError saying why neither can be
 */
export function planRuntime(mode: RuntimeMode, facts: RuntimeFacts, owner: string): "install" | "adopt" {
  const isOurs = facts.declaredBy === owner;
  const others = facts.hasController && !isOurs;
  if (mode === "install" && others) throw runsAlready(facts);
  if (mode === "install" || (mode === "auto" && !others)) return "install";
  if (!facts.hasController) {
    throw new RametError("NotFound", "No controllers of Ramet run in this cluster, so there is nothing to adopt", {
      hint: 'Set mode to "install", or start them: ramet local up for one machine',
    });
  }
  if (facts.missingCrds.length + facts.otherCrds.length > 0) throw otherVersion(facts);
  return "adopt";
}

function runsAlready({ declaredBy }: RuntimeFacts): RametError {
  const who = declaredBy ?? "something else than a Pulumi program";
  return new RametError("AlreadyExists", `Controllers of Ramet run in this cluster already, declared by ${who}`, {
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
