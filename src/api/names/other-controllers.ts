import { group, rametGroup } from "../schema/kind.ts";

/** A controller of another project, and how it is recognized. */
export interface KnownController {
  /** Its name in messages. */
  name: string;
  /** The API groups whose objects it writes. */
  groups: readonly string[];
  /** Its leases for leader election. The namespace depends on the installation. */
  leases: readonly string[];
  /** Its Deployments as its own manifests name them. `namespaces`: only there, where another project uses the name too. */
  deployments: readonly { name: string; namespaces?: readonly string[] }[];
}

/**
 * OpenKruise Agents and ACS: `cmd/agent-sandbox-controller/main.go`, `pkg/sandbox-manager/leader.go` and `config/` of
 * openkruise/agents, and the component names of the ACS documentation. agent-sandbox: `cmd/agent-sandbox-controller` and `k8s/` of
 * kubernetes-sigs/agent-sandbox.
 */
export const knownControllers: readonly KnownController[] = [
  {
    name: "OpenKruise Agents or ACS",
    groups: [group],
    leases: ["f57b9a68.kruise.io", "sandbox-manager-primary"],
    deployments: [
      { name: "sandbox-controller-manager" },
      { name: "sandbox-manager" },
      { name: "ack-agent-sandbox-controller" },
      { name: "ack-sandbox-manager" },
    ],
  },
  {
    name: "agent-sandbox of kubernetes-sigs",
    groups: ["agents.x-k8s.io", "extensions.agents.x-k8s.io"],
    leases: ["a3317529.agent-sandbox.x-k8s.io"],
    deployments: [{ name: "agent-sandbox-controller", namespaces: ["agent-sandbox-system"] }],
  },
];

/** The groups whose objects Ramet's controllers write. */
export const reconciledGroups: readonly string[] = [group, rametGroup];

/** The controllers that would write the same objects as Ramet's controllers. */
export const competingControllers = knownControllers.filter(({ groups }) =>
  groups.some((one) => reconciledGroups.includes(one)),
);
