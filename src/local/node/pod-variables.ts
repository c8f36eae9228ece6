import * as z from "zod";
import { expandVariables } from "../../api/pod/container-spec.ts";
import type { Container } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import type { NodePod, PodObjects } from "./pod.ts";

const KeyRef = z.object({ name: z.string().default(""), key: z.string(), optional: z.boolean().default(false) });
const ValueFrom = z.object({
  fieldRef: z.looseObject({ fieldPath: z.string() }).optional(),
  configMapKeyRef: KeyRef.optional(),
  secretKeyRef: KeyRef.optional(),
});
const ObjectRef = z.object({ name: z.string().default(""), optional: z.boolean().default(false) });
const EnvFrom = z.looseObject({
  prefix: z.string().default(""),
  configMapRef: ObjectRef.optional(),
  secretRef: ObjectRef.optional(),
});

/**
 * Resolves the variables of a container as a kubelet does: `envFrom` first, then `env`, each expanded with the previous ones.
 * @throws RametError `NotFound` for a missing object or key, `InvalidArgument` for an unsupported source
 */
export async function podVariables(
  pod: NodePod,
  container: Container,
  sources: { objects: PodObjects; place: PodPlace },
): Promise<ReadonlyMap<string, string>> {
  const variables = await fromObjects(pod, container, sources.objects);
  for (const { name, value, valueFrom } of container.env ?? []) {
    const text =
      valueFrom === undefined
        ? expandVariables(value ?? "", (other) => variables.get(other))
        : await resolve(pod, valueFrom, {
            ...sources,
            field: `the variable ${name} of container ${container.name}: valueFrom`,
          });
    if (text !== undefined) variables.set(name, text);
  }
  return variables;
}

/** `envFrom`: all keys of ConfigMaps and Secrets. */
async function fromObjects(
  pod: NodePod,
  { envFrom = [] }: Container,
  objects: PodObjects,
): Promise<Map<string, string>> {
  const { namespace } = pod.metadata;
  const variables = new Map<string, string>();
  for (const entry of envFrom) {
    const { prefix, configMapRef, secretRef } = EnvFrom.parse(entry);
    const found = configMapRef
      ? await objects.read("configMaps", { ...configMapRef, namespace })
      : secretRef && (await objects.read("secrets", { ...secretRef, namespace }));
    for (const [key, value] of found ?? []) variables.set(prefix + key, value.toString());
  }
  return variables;
}

async function resolve(
  pod: NodePod,
  valueFrom: unknown,
  { objects, place, field }: { objects: PodObjects; place: PodPlace; field: string },
): Promise<string | undefined> {
  const { fieldRef, configMapKeyRef, secretKeyRef } = ValueFrom.parse(valueFrom);
  if (fieldRef !== undefined) return podField(pod, fieldRef.fieldPath, { place, field });
  const ref = configMapKeyRef ?? secretKeyRef;
  if (ref === undefined)
    throw new RametError(
      "InvalidArgument",
      `${field} is not supported: the local node supports fieldRef, configMapKeyRef and secretKeyRef`,
    );
  const kind = configMapKeyRef === undefined ? "secrets" : "configMaps";
  const value = (await objects.read(kind, { ...ref, namespace: pod.metadata.namespace }))?.get(ref.key);
  if (value === undefined && !ref.optional)
    throw new RametError("NotFound", `Resolving ${field} failed: ${ref.name} has no key ${ref.key}`);
  return value?.toString();
}

/** Values of the downward API that are not in the Pod object yet, because it is bound while it starts. */
interface PodPlace {
  nodeName: string;
  podIP: string;
  hostIP: string;
}

/**
 * The value of a field of the downward API in a variable.
 * @throws RametError `InvalidArgument` for a field that the local node does not provide
 */
function podField(pod: NodePod, path: string, { place, field }: { place: PodPlace; field: string }): string {
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
