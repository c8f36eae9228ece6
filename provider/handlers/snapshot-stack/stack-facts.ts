import { detectCloud, type Cloud } from "./detect-cloud.ts";
import type { Finding } from "../../../src/preflight/finding.ts";
import type { ObservedCluster } from "./observed-cluster.ts";

/** The state of volume snapshots in a cluster, as a snapshot stack found it. */
export interface SnapshotStackFacts {
  server: string;
  /** The detected kind of cluster, and the evidence. */
  cloud: { name: Cloud; evidence: string };
  crds: { name: string; served: string[]; stored: string[]; manager: string }[];
  /** The controllers with a visible Deployment. A cloud may run one outside the cluster. */
  controllers: {
    namespacedName: string;
    image: string;
    featureGates: Record<string, boolean>;
    isAvailable: boolean;
    manager: string;
  }[];
  drivers: string[];
  classes: { name: string; driver: string; deletionPolicy: string; isDefault: boolean; manager: string }[];
  /** Missing or conflicting parts, each with a hint. */
  findings: { problem: string; hint: string }[];
}

export function summarize(observed: ObservedCluster, findings: readonly Finding[]): SnapshotStackFacts {
  const { cloud, evidence } = detectCloud(observed);
  return {
    server: observed.server,
    cloud: { name: cloud, evidence },
    crds: observed.crds.map(({ name, served, stored, manager }) => ({ name, served, stored, manager })),
    controllers: observed.controllers.map(({ namespace, name, image, isAvailable, manager, arguments: given }) => ({
      namespacedName: `${namespace}/${name}`,
      image,
      featureGates: gatesIn(given),
      isAvailable,
      manager,
    })),
    drivers: observed.drivers,
    classes: observed.classes.map(({ name, driver, deletionPolicy, isDefault, manager }) => ({
      name,
      driver,
      deletionPolicy,
      isDefault,
      manager,
    })),
    findings: findings.map(({ message, action = "" }) => ({ problem: message, hint: action })),
  };
}

/** Parses `--feature-gates=A=true,B=false`. */
function gatesIn(given: readonly string[]): Record<string, boolean> {
  const prefix = /^--?feature-gates=/;
  const pairs = given
    .filter((argument) => prefix.test(argument))
    .flatMap((argument) => argument.replace(prefix, "").split(","))
    .map((pair) => pair.split("="));
  return Object.fromEntries(pairs.map(([gate = "", value]) => [gate, value === "true"]));
}
