import { cpus, hostname, release, totalmem } from "node:os";
import { goArchitecture } from "../../base/machine.ts";
import { localNodeLabels } from "../../api/names/system-names.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { microTime } from "../../kube/lease.ts";
import { seconds } from "./pod-status.ts";
import { coreResources } from "../../kube/resource-ref.ts";

export const localNodeName = "ramet-local";

export interface NodeFacts {
  name: string;
  /** The address at which the API server requests logs. */
  ip: string;
  port: number;
}

const maxPods = 500;
/** A kubelet renews its Lease every `nodeLeaseDurationSeconds` / 4. */
export const heartbeatMilliseconds = 10_000;
const leaseSeconds = 40;

/** Creates or updates the Node object, with its readiness. */
export async function writeNode(client: KubeClient, facts: NodeFacts, ready: NodeReadiness): Promise<void> {
  const nodes = client.resource(coreResources.nodes);
  const manifest = {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: facts.name,
      labels: {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": goArchitecture,
        ...localNodeLabels,
      },
    },
  };
  const applied = { fieldManager: "ramet-local-node", force: true };
  await nodes.apply(manifest, applied);
  await nodes.apply(
    { ...manifest, status: nodeStatus(facts, ready, client.clock.now()) },
    { ...applied, subresource: "status" },
  );
}

export interface NodeReadiness {
  ready: boolean;
  reason: string;
  message: string;
}

function nodeStatus({ ip, port, name }: NodeFacts, { ready, reason, message }: NodeReadiness, now: Date) {
  const time = seconds(now);
  const capacity = { cpu: String(cpus().length), memory: `${Math.floor(totalmem() / 1024)}Ki`, pods: String(maxPods) };
  const status = ready ? "True" : "False";
  return {
    capacity,
    allocatable: capacity,
    addresses: [
      { type: "InternalIP", address: ip },
      { type: "Hostname", address: name },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
    conditions: [{ type: "Ready", status, reason, message, lastHeartbeatTime: time, lastTransitionTime: time }],
    nodeInfo: {
      architecture: goArchitecture,
      operatingSystem: "linux",
      osImage: `the machine ${hostname()}`,
      kernelVersion: release(),
      containerRuntimeVersion: "ramet://local",
      kubeletVersion: "v1.36.3-ramet",
      kubeProxyVersion: "",
      machineID: "",
      systemUUID: "",
      bootID: "",
    },
  };
}

/** Renews the node's Lease, as a kubelet does. */
export async function renewNodeLease(client: KubeClient, name: string): Promise<void> {
  await client.resource(coreResources.leases).apply(
    {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { namespace: "kube-node-lease", name },
      spec: { holderIdentity: name, leaseDurationSeconds: leaseSeconds, renewTime: microTime(client.clock.now()) },
    },
    { fieldManager: "ramet-local-node", force: true },
  );
}
