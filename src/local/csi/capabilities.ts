import { RametError } from "../../base/errors.ts";
import type { Capability } from "./requests.ts";

/** A volume is a directory of one machine, so each access mode works, also those for several nodes. */
const modes: ReadonlySet<string> = new Set([
  "SINGLE_NODE_WRITER",
  "SINGLE_NODE_READER_ONLY",
  "SINGLE_NODE_SINGLE_WRITER",
  "SINGLE_NODE_MULTI_WRITER",
  "MULTI_NODE_READER_ONLY",
  "MULTI_NODE_SINGLE_WRITER",
  "MULTI_NODE_MULTI_WRITER",
]);

/** Options that a bind mount can have. */
const mountFlags: ReadonlySet<string> = new Set([
  "ro",
  "noatime",
  "nodiratime",
  "relatime",
  "noexec",
  "nosuid",
  "nodev",
]);

/** Why volumes cannot be used like this, or undefined if they can. */
export function unsupported({ accessType, accessMode, mount }: Capability): string | undefined {
  if (accessType === "block") return "its volumes are directories, so none can be a block device";
  const mode = accessMode?.mode;
  if (mode !== undefined && !modes.has(mode)) return `it does not support the access mode ${mode}`;
  const flag = mount?.mountFlags.find((one) => !mountFlags.has(one));
  return flag === undefined ? undefined : `it does not support the mount option ${flag}`;
}

/** @throws RametError `InvalidArgument` */
export function checkCapabilities(capabilities: readonly Capability[]): void {
  for (const capability of capabilities) {
    const why = unsupported(capability);
    if (why !== undefined) throw new RametError("InvalidArgument", `The driver cannot provide the volume: ${why}`);
  }
}

const topologyKey = "topology.local.csi.ramet.dev/node";

/** Volumes are accessible from the node that has their directory. */
export function topologyOf(nodeId: string): { segments: Record<string, string> } {
  return { segments: { [topologyKey]: nodeId } };
}

/** Whether one of the topologies includes the node. */
export function isOnNode(topologies: readonly { segments: Record<string, string> }[], nodeId: string): boolean {
  return topologies.some(({ segments }) => segments[topologyKey] === nodeId);
}
