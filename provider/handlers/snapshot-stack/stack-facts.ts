import { cloudOf, type Cloud } from "./cloud-of.ts";
import type { Finding } from "./finding.ts";
import type { ControllerSeen, CrdSeen, StackSeen } from "./stack-seen.ts";

/** What a snapshot stack found in the cluster, for people and programs to read. */
export interface SnapshotStackFacts {
  /** The version of the API server. */
  server: string;
  /** What the cluster shows itself to be, and by what. */
  cloud: { name: Cloud; because: string };
  /** Those CRDs that are there, and who looks after each. */
  crds: { name: string; served: string[]; stored: string[]; manager: string }[];
  /** The controllers whose Deployments can be seen; a cloud may run one that cannot. */
  controllers: {
    place: string;
    image: string;
    /** Feature gates that its arguments name. */
    gates: Record<string, boolean>;
    isAvailable: boolean;
    manager: string;
  }[];
  /** The CSI drivers. */
  drivers: string[];
  classes: { name: string; driver: string; deletionPolicy: string; isDefault: boolean; manager: string }[];
  /** What is missing or amiss, each with the sentence that says what to do. */
  missing: { what: string; how: string }[];
}

export function factsOf(seen: StackSeen, findings: readonly Finding[]): SnapshotStackFacts {
  const { cloud, because } = cloudOf(seen);
  return {
    server: seen.server,
    cloud: { name: cloud, because },
    crds: seen.crds.map(crdFacts),
    controllers: seen.controllers.map(controllerFacts),
    drivers: seen.drivers,
    classes: seen.classes.map(({ name, driver, deletionPolicy, isDefault, manager }) => ({
      name,
      driver,
      deletionPolicy,
      isDefault,
      manager,
    })),
    missing: findings.map(({ what, how }) => ({ what, how })),
  };
}

function crdFacts({ name, served, stored, manager }: CrdSeen): SnapshotStackFacts["crds"][number] {
  return { name, served, stored, manager };
}

function controllerFacts(seen: ControllerSeen): SnapshotStackFacts["controllers"][number] {
  const { namespace, name, image, isAvailable, manager } = seen;
  return { place: `${namespace}/${name}`, image, gates: gatesIn(seen.arguments), isAvailable, manager };
}

/** `--feature-gates=A=true,B=false`, as Kubernetes programs take them. */
function gatesIn(given: readonly string[]): Record<string, boolean> {
  const prefix = /^--?feature-gates=/;
  const pairs = given
    .filter((argument) => prefix.test(argument))
    .flatMap((argument) => argument.replace(prefix, "").split(","))
    .map((pair) => pair.split("="));
  return Object.fromEntries(pairs.map(([gate = "", value]) => [gate, value === "true"]));
}
