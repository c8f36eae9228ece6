/** A Kubernetes object to apply. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; annotations?: Record<string, string>; labels?: Record<string, string> };
  [field: string]: unknown;
}

/** The default for the cluster's ranges of Pods, Services and nodes: the private ranges of RFC 1918 and RFC 6598. */
export const privateRanges: readonly string[] = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"];
