const topologyKey = "topology.local.csi.ramet.dev/node";

/** Volumes are accessible from the node that has their directory. */
export function topologyOf(nodeId: string): { segments: Record<string, string> } {
  return { segments: { [topologyKey]: nodeId } };
}

/** Whether one of the topologies includes the node. */
export function isOnNode(topologies: readonly { segments: Record<string, string> }[], nodeId: string): boolean {
  return topologies.some(({ segments }) => segments[topologyKey] === nodeId);
}
