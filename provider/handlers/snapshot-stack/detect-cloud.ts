import { localNodeLabels } from "../../../src/api/names/system-names.ts";
import type { Finding } from "./finding.ts";
import type { ObservedCluster } from "./observed-cluster.ts";

export type Cloud = "eks" | "gke" | "aks" | "acs" | "generic" | "local";

/** What a cluster shows itself to be, and by what. `generic`: it shows nothing. */
export interface DetectedCloud {
  cloud: Cloud;
  evidence: string;
}

/** A pure function of what was found; managed clusters show themselves in several ways, the surest is taken. */
export function detectCloud({
  server,
  nodes,
  drivers,
}: Pick<ObservedCluster, "server" | "nodes" | "drivers">): DetectedCloud {
  const version = byVersion.find(({ pattern }) => pattern.test(server));
  if (version !== undefined) return { cloud: version.cloud, evidence: `its API server is ${server}` };
  for (const { cloud, fits, says } of byNode) {
    const node = nodes.find(fits);
    if (node !== undefined) return { cloud, evidence: `a node has ${says}` };
  }
  const driver = drivers.find((name) => byDriver.has(name));
  const cloud = driver === undefined ? undefined : byDriver.get(driver);
  if (cloud !== undefined) return { cloud, evidence: `it has the driver ${driver ?? ""}` };
  return { cloud: "generic", evidence: "nothing in it says otherwise" };
}

/** A cluster of a cloud may be treated as any other (`generic`), and never as one of another cloud. */
export function cloudFindings(requested: Cloud, observed: DetectedCloud): Finding[] {
  if (requested === observed.cloud || (requested === "generic" && observed.cloud !== "local")) return [];
  const known =
    observed.cloud === "generic" ? "shows nothing that says so" : `is one of ${observed.cloud}: ${observed.evidence}`;
  const severity = observed.cloud === "generic" ? "warning" : "error";
  const hint = `Set cloud to "${observed.cloud}", or let the program look at the cluster that is meant (kubeconfig)`;
  return [{ code: "InvalidArgument", problem: `the cluster ${known}, and cloud is "${requested}"`, hint, severity }];
}

const byVersion: readonly { cloud: Cloud; pattern: RegExp }[] = [
  { cloud: "eks", pattern: /-eks-/ },
  { cloud: "gke", pattern: /-gke\./ },
  { cloud: "acs", pattern: /-aliyun\./ },
];

interface NodeMark {
  cloud: Cloud;
  fits: (node: ObservedCluster["nodes"][number]) => boolean;
  says: string;
}

const byNode: readonly NodeMark[] = [
  {
    cloud: "aks",
    fits: ({ labels }) => labels["kubernetes.azure.com/cluster"] !== undefined,
    says: "the label kubernetes.azure.com/cluster",
  },
  {
    cloud: "eks",
    fits: ({ labels }) => Object.keys(labels).some((label) => label.startsWith("eks.amazonaws.com/")),
    says: "a label of eks.amazonaws.com",
  },
  {
    cloud: "gke",
    fits: ({ labels }) => labels["cloud.google.com/gke-nodepool"] !== undefined,
    says: "the label cloud.google.com/gke-nodepool",
  },
  {
    cloud: "acs",
    fits: ({ labels }) => Object.keys(labels).some((label) => label.startsWith("alibabacloud.com/")),
    says: "a label of alibabacloud.com",
  },
  {
    cloud: "local",
    fits: ({ labels }) => Object.entries(localNodeLabels).every(([label, value]) => labels[label] === value),
    says: "the instance type ramet-local",
  },
];

/** Drivers that come with a managed cluster alone; the others of these clouds are also installed on one's own nodes. */
const byDriver: ReadonlyMap<string, Cloud> = new Map([["ebs.csi.eks.amazonaws.com", "eks"]]);
