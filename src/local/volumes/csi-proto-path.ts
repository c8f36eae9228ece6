import { join } from "node:path";
import { packageRoot } from "../tools/tool.ts";

/** The path of CSI's definition in this package. */
export function csiProtoPath(): string {
  return join(packageRoot(), "proto", "csi.proto");
}
