import { specialAddresses } from "../base/special-addresses.ts";

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; annotations?: Record<string, string>; labels?: Record<string, string> };
  [field: string]: unknown;
}

/** The default for the cluster's ranges of Pods, Services and nodes. */
export const privateRanges: readonly string[] = specialAddresses.private;
