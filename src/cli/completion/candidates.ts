import type { Command } from "commander";
import { within } from "../../base/within.ts";
import { type Io, writeAll } from "../io.ts";
import { type Position, positionOf, type NameSource } from "./position.ts";
import { coreResources, refOf, type ResourceRef } from "../../kube/resource-ref.ts";
import { readKubeconfig } from "../../kube/kubeconfig-files.ts";
import { localClusters } from "../../local/cluster-status.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { kubeconfigSource } from "../cluster/kubeconfig-source.ts";
import { isVolumeKind } from "../explain/volume-kinds.ts";
import { volumeKinds } from "../explain/volume-resources.ts";
import { userKinds } from "../object/user-kind.ts";

/** `ramet __complete -- WORDS`: prints the candidates for the last word. Never fails: a shell would show the error. */
export async function printCandidates(io: Io, program: Command, words: readonly string[]): Promise<void> {
  const position = positionOf(program, words);
  const { prefix, suffix } = position;
  const names = (await namesAt(io, position)).map((name) => `${name}${suffix}`);
  const last = words.at(-1) ?? "";
  const all = [...position.candidates, ...names];
  const fitting = all.flatMap((one) => (`${prefix}${one}`.startsWith(last) ? [`${prefix}${one}\n`] : []));
  await writeAll(io.stdout, fitting.join(""));
}

async function namesAt(io: Io, { namesOf, cluster }: Position): Promise<string[]> {
  const { clock, signal } = io;
  const listed = namesOf.map(async (source) => {
    try {
      return await within({ clock, milliseconds: 1_000, what: "Listing names", signal }, (inTime) =>
        namesFrom(io, source, cluster, inTime),
      );
    } catch {
      return [];
    }
  });
  return (await Promise.all(listed)).flat();
}

/** All names of a source, in the namespace that the words select. @throws RametError */
async function namesFrom(io: Io, source: NameSource, selected: ClusterOptions, signal: AbortSignal): Promise<string[]> {
  if (source === "localCluster") return (await localClusters(io.environment)).map(({ name }) => name);
  if (source === "context") {
    const { contexts } = await readKubeconfig(await kubeconfigSource(io.environment, selected.kubeconfig));
    return contexts.map(({ name }) => name);
  }
  return withCluster(io, selected, async ({ client, namespace }) => {
    const ref = refOfSource(source);
    const { items } = await client.resource(ref).list({ ...(ref.namespaced ? { namespace } : {}), signal });
    return items.map(({ metadata }) => metadata.name);
  });
}

function refOfSource(source: Exclude<NameSource, "context" | "localCluster">): ResourceRef {
  if (source === "namespace") return coreResources.namespaces;
  if (isVolumeKind(source)) return volumeKinds[source];
  return source === "serviceAccount" ? coreResources.serviceAccounts : refOf(userKinds[source].kind);
}
