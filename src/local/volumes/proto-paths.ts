import { join } from "node:path";
import { packageRoot } from "../tools/tool.ts";

/** The path of CSI's definition in this package. */
export function csiProtoPath(): string {
  return join(packageRoot(), "proto", "csi.proto");
}

/** The path of the kubelet's definition of its registration of plugins in this package. */
export function registrationProtoPath(): string {
  return join(packageRoot(), "proto", "pluginregistration.proto");
}
