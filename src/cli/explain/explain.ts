import { controllersLease, systemNamespace } from "../../api/names/system-names.ts";
import { RametError } from "../../base/errors.ts";
import { visible } from "../../base/visible.ts";
import type { KubeObject } from "../../kube/object.ts";
import { type Cluster, type ClusterOptions, isUnknownKind, withCluster } from "../cluster/cluster.ts";
import { type Io, writeAll } from "../io.ts";
import { type UserKindName, findObject } from "../object/user-kind.ts";
import { age, size } from "../output/render.ts";
import type { Explanation, HeldStorage } from "./explanation.ts";
import { Explainer } from "./gather.ts";
import { FactReader } from "./read.ts";
import { type VolumeKindName, isVolumeKind } from "./volume-kinds.ts";
import { explainVolume } from "./volume-read.ts";
import { volumeKinds } from "./volume-resources.ts";

export interface ExplainOptions extends ClusterOptions {
  objects: readonly { kind: UserKindName | VolumeKindName; name: string }[];
  output: "table" | "json";
}

/** `ramet explain`: names the cause of the state of each object, and the one thing to do. */
export async function explainObjects(io: Io, options: ExplainOptions): Promise<void> {
  return withCluster(io, options, async (cluster) => {
    const now = io.clock.now();
    const controllers = new FactReader(io, cluster.client).lease(controllersLease, systemNamespace);
    const explained = options.objects.map(async ({ kind, name }): Promise<Explained> => {
      const reader = new FactReader(io, cluster.client);
      if (isVolumeKind(kind)) {
        const object = await findVolumeObject(cluster, kind, name, io.signal);
        const explanation = await explainVolume(reader, kind, object, now);
        return { kind, object, explanation, unknown: [...reader.unknown] };
      }
      const object = await findObject(cluster, kind, name);
      const explainer = new Explainer(cluster, reader, { now, controllers: await controllers });
      const explanation = await explainer.explain(kind, object);
      return { kind, object, explanation, unknown: [...reader.unknown] };
    });
    const [all] = await Promise.all([Promise.all(explained), controllers]);
    await writeAll(io.stdout, renderExplained(all, options.output, io.clock.now()));
  });
}

/** @throws RametError `NotFound`; `NotSupported` if the cluster has no VolumeSnapshots */
async function findVolumeObject(
  cluster: Cluster,
  kind: VolumeKindName,
  name: string,
  signal: AbortSignal,
): Promise<KubeObject> {
  const ref = volumeKinds[kind];
  const at = ref.namespaced ? { namespace: cluster.namespace, name } : { name };
  try {
    return await cluster.client.resource(ref).get(at, { signal });
  } catch (error) {
    if (isUnknownKind(error))
      throw new RametError("NotSupported", `The cluster has no ${ref.kind}s: their CRDs are not installed`, {
        hint: "Install external-snapshotter, for example with the Pulumi component SnapshotStack",
        cause: error,
      });
    if (!(error instanceof RametError) || error.code !== "NotFound") throw error;
    const where = ref.namespaced ? ` in namespace ${cluster.namespace}` : "";
    throw new RametError("NotFound", `The ${ref.kind} ${name} does not exist${where}`, {
      hint: `List the existing ones with: kubectl get ${ref.plural}${ref.namespaced ? ` -n ${cluster.namespace}` : ""}`,
      cause: error,
    });
  }
}

export interface Explained {
  /** The kind's name on the command line. */
  kind: string;
  object: KubeObject;
  explanation: Explanation;
  /** The facts that could not be read, and why. */
  unknown: string[];
}

/** Explanations as text for people, or as JSON: one object, or a list of several. */
export function renderExplained(all: readonly Explained[], output: "table" | "json", now: Date): string {
  if (output === "table") return all.map((one) => block(one, now)).join("\n");
  const documents = all.map(document);
  return `${JSON.stringify(documents.length === 1 ? documents[0] : documents, undefined, 2)}\n`;
}

function document({ kind, object, explanation, unknown }: Explained): object {
  const { name, namespace } = object.metadata;
  const { phase = phaseOf(object), ...explained } = explanation;
  return { object: `${kind}/${name}`, namespace, phase, ...explained, unknown };
}

/** A line each, because sentences do not fit into columns. */
function block({ kind, object, explanation, unknown }: Explained, now: Date): string {
  const { state, cause, reason, since, lastEvent, retry, action, foundIn, storage } = explanation;
  const phase = explanation.phase ?? phaseOf(object);
  const { name, namespace } = object.metadata;
  const lines: [string, string | undefined][] = [
    ["OBJECT", namespace === undefined ? `${kind}/${name}` : `${kind}/${name} in ${namespace}`],
    ["STATE", phase === undefined ? state : `${state} (${phase})`],
    ["CAUSE", reason === undefined ? cause : `${cause} [${reason}]`],
    ["FOUND IN", foundIn],
    ["SINCE", since === undefined ? undefined : `${age(since, now)} (${since})`],
    ["LAST EVENT", lastEvent && `${lastEvent.reason}, ${age(lastEvent.at, now)} ago: ${lastEvent.message}`],
    ["HELD BY", storage && describeStorage(storage)],
    ["NEXT RETRY", retry],
    ["DO", action],
    ["UNKNOWN", unknown.length === 0 ? undefined : unknown.join("; ")],
  ];
  return lines
    .filter(([, text]) => text !== undefined)
    .map(([heading, text = ""]) => `${heading.padEnd(12)}${visible(text.replace(/\s+/g, " "))}\n`)
    .join("");
}

function describeStorage({ usedBytes, holders }: HeldStorage): string {
  const largest = holders.map(
    ({ kind, name, uniqueBytes, sharedBytes, use }) =>
      `${kind}/${name} ${size(uniqueBytes)}${sharedBytes > 0 ? ` and ${size(sharedBytes)} shared` : ""}${use === undefined ? "" : ` (${use})`}`,
  );
  return `${size(usedBytes)} in this namespace, most by ${largest.join(", ")}`;
}

function phaseOf(object: KubeObject): string | undefined {
  if (object.metadata.deletionTimestamp !== undefined) return "Terminating";
  const status: unknown = "status" in object ? object.status : undefined;
  const phase: unknown = typeof status === "object" && status !== null && "phase" in status ? status.phase : undefined;
  return typeof phase === "string" ? phase : undefined;
}
