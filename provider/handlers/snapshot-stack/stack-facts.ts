import { detectCloud, type Cloud } from "./detect-cloud.ts";
import type { Finding } from "./finding.ts";
import type { ObservedController, ObservedCrd, ObservedCluster } from "./observed-cluster.ts";

/** What a snapshot stack found in the cluster, for people and programs to read. */
export interface SnapshotStackFacts {
  /** The version of the API server. */
  server: string;
  /** What the cluster shows itself to be, and by what. */
  cloud: { name: Cloud; evidence: string };
  /** Those CRDs that are there, and who looks after each. */
  crds: { name: string; served: string[]; stored: string[]; manager: string }[];
  /** The controllers whose Deployments can be seen; a cloud may run one that cannot. */
  controllers: {
    namespacedName: string;
    image: string;
    /** Feature gates that its arguments name. */
    featureGates: Record<string, boolean>;
    isAvailable: boolean;
    manager: string;
  }[];
  /** The CSI drivers. */
  drivers: string[];
  classes: { name: string; driver: string; deletionPolicy: string; isDefault: boolean; manager: string }[];
  /** What is missing or amiss, each with the sentence that says what to do. */
  findings: { problem: string; hint: string }[];
}

export function summarize(observed: ObservedCluster, findings: readonly Finding[]): SnapshotStackFacts {
  const { cloud, evidence } = detectCloud(observed);
  return {
    server: observed.server,
    cloud: { name: cloud, evidence },
    crds: observed.crds.map(crdFacts),
    controllers: observed.controllers.map(controllerFacts),
    drivers: observed.drivers,
    classes: observed.classes.map(({ name, driver, deletionPolicy, isDefault, manager }) => ({
      name,
      driver,
      deletionPolicy,
      isDefault,
      manager,
    })),
    findings: findings.map(({ problem, hint }) => ({ problem, hint })),
  };
}

function crdFacts({ name, served, stored, manager }: ObservedCrd): SnapshotStackFacts["crds"][number] {
  return { name, served, stored, manager };
}

function controllerFacts(observed: ObservedController): SnapshotStackFacts["controllers"][number] {
  const { namespace, name, image, isAvailable, manager } = observed;
  return {
    namespacedName: `${namespace}/${name}`,
    image,
    featureGates: gatesIn(observed.arguments),
    isAvailable,
    manager,
  };
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
