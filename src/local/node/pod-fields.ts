import { RametError } from "../../base/errors.ts";
import type { NodePod } from "./pod.ts";

/** Values of the downward API that are not in the Pod object yet, because it is bound while it starts. */
export interface PodPlace {
  nodeName: string;
  podIP: string;
  hostIP: string;
}

/**
 * The value of a field of the downward API in a variable.
 * @throws RametError `InvalidArgument` for a field that the local node does not provide
 */
export function podField(pod: NodePod, path: string, { place, field }: { place: PodPlace; field: string }): string {
  const { spec } = pod;
  const fields: Readonly<Record<string, unknown>> = {
    "spec.nodeName": place.nodeName,
    "spec.serviceAccountName": spec["serviceAccountName"] ?? "",
    "status.podIP": place.podIP,
    "status.podIPs": place.podIP,
    "status.hostIP": place.hostIP,
    "status.hostIPs": place.hostIP,
  };
  const value = metadataField(pod, path) ?? fields[path];
  if (typeof value === "string") return value;
  throw notProvided(`${field}.fieldRef`, path);
}

/**
 * The value of a field in a file of a downwardAPI volume: labels and annotations can be a whole there.
 * @throws RametError `InvalidArgument`
 */
export function podFieldFile(pod: NodePod, path: string, what: string): string {
  const { labels, annotations } = pod.metadata;
  if (path === "metadata.labels") return lines(labels);
  if (path === "metadata.annotations") return lines(annotations);
  const value = metadataField(pod, path);
  if (value === undefined) throw notProvided(what, path);
  return value;
}

function metadataField({ metadata }: NodePod, path: string): string | undefined {
  const keyed = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path);
  if (keyed !== null) return metadata[keyed[1] as "labels" | "annotations"]?.[keyed[2] ?? ""] ?? "";
  const fields: Readonly<Record<string, string>> = {
    "metadata.name": metadata.name,
    "metadata.namespace": metadata.namespace,
    "metadata.uid": metadata.uid,
  };
  return fields[path];
}

/** As a kubelet writes them: sorted, one `key="value"` a line, the value escaped as in Go. */
function lines(values: Readonly<Record<string, string>> = {}): string {
  return Object.keys(values)
    .sort()
    .map((key) => `${key}=${JSON.stringify(values[key])}\n`)
    .join("");
}

function notProvided(what: string, path: string): RametError {
  return new RametError("InvalidArgument", `${what} is not supported: the local node does not provide ${path}`);
}
