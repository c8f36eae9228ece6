import { createHash } from "node:crypto";
import * as z from "zod";
import type { EngineBuild } from "../../api/engine/engine.ts";
import type { CheckpointPart } from "../../api/kinds/checkpoint.ts";
import { systemNamespace } from "../../api/names/system-names.ts";
import { memoryPart } from "../../backends/checkpoint-record.ts";
import { changeEntries } from "../../backends/kept-secret.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { parsedJson } from "../../base/tolerant-parse.ts";
import type { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { Node } from "./nodes.ts";
import { anyNode, type CpuPlan, type NodeCpu, planCpus } from "./plan-cpus.ts";

/** The ConfigMap in `ramet-system` in which the controllers remember what cells have reported about the nodes' CPUs. */
const nodeCpusConfigMap = "ramet-node-cpus";

type Nodes = Pick<Informer<Node>, "store">;

/** Entries of the ConfigMap; null: the entry is removed. */
type Changes = Record<string, string | null>;

/**
 * The CPU features of nodes, as cells report them when they start a sandbox. Memory needs the features of the CPU on which it was
 * captured, so Pods that restore it avoid the nodes that lack one.
 */
export class NodeCpus {
  readonly #nodes: Nodes;
  readonly #list: CpuList;
  readonly #save: ((changes: Changes) => Promise<void>) | undefined;

  constructor(nodes: Nodes, list: CpuList = parseCpuList(undefined), save?: (changes: Changes) => Promise<void>) {
    this.#nodes = nodes;
    this.#list = list;
    this.#save = save;
    nodes.store.subscribe(({ type, object }) => {
      if (type === "deleted") this.#forget([object.metadata.name]);
    });
  }

  /** Reads what the cluster remembers. Call it when the informer of nodes has synced. */
  static async open(client: KubeClient, nodes: Nodes, { log, signal }: { log: Log; signal: AbortSignal }) {
    const found = await client.configMaps.find(at, { signal });
    const save = (data: Changes): Promise<void> =>
      changeEntries(client, at, data).catch((error: unknown) => {
        // It is learned again when a cell starts on the node.
        log.warn({ error: RametError.from(error).describe() }, "remembering the CPU features of a node failed");
      });
    const cpus = new NodeCpus(nodes, parseCpuList(found?.data), save);
    cpus.#forget([...cpus.#list.nodes.keys()].filter((name) => nodes.store.get(name) === undefined));
    return cpus;
  }

  /**
   * Remembers what a cell on this node has reported. All reports since the machine's last start count together: its CPU has what any of
   * them has.
   */
  learn(nodeName: string | undefined, { version, cpuFeatures }: EngineBuild): void {
    const reported = readFeatures(cpuFeatures);
    const node = nodeName === undefined ? undefined : this.#nodes.store.get(nodeName);
    if (node === undefined || reported === undefined || !isNodeKey(node.metadata.name)) return;
    const { name } = node.metadata;
    const boot = node.status.nodeInfo.bootID;
    const before = this.#reportOf(node)?.cpus ?? {};
    const known = this.#features(before[version]);
    if (known !== undefined && reported.every((feature) => known.has(feature))) return;
    const features = new Set([...(known ?? []), ...reported]);
    const id = featuresId(features);
    const report = { boot, cpus: latest({ ...before, [version]: id }, version) };
    this.#list.features.set(id, features);
    this.#list.nodes.set(name, report);
    void this.#save?.({ [name]: JSON.stringify(report), [keyOfFeatures(id)]: formatFeatures(features) });
  }

  /** Whether the CPU of a node is known to lack a feature that memory in these parts needs. */
  lacks(nodeName: string | undefined, parts: readonly CheckpointPart[]): boolean {
    const node = nodeName === undefined ? undefined : this.#nodes.store.get(nodeName);
    const needs = memoryPart(parts)?.needs;
    if (node === undefined || needs?.cpuFeatures === undefined) return false;
    const own = this.#cpuOf(node, needs.engine).features;
    return own !== undefined && !needs.cpuFeatures.every((feature) => own.has(feature));
  }

  /** Whether memory of one node can be restored on another one. Undefined: no version of gVisor has run on both. */
  covers(from: Node, to: Node): boolean | undefined {
    const [own, others] = [this.#reportOf(from)?.cpus ?? {}, this.#reportOf(to)?.cpus ?? {}];
    const version = Object.keys(own).findLast((one) => others[one] !== undefined);
    if (version === undefined) return undefined;
    const [needed, known] = [this.#features(own[version]), this.#features(others[version])];
    return needed && known && [...needed].every((feature) => known.has(feature));
  }

  /** Whether the node evicts Pods that exceed their limit of ephemeral storage, as a kubelet does. */
  limitsStorage(nodeName: string | undefined): boolean {
    const node = nodeName === undefined ? undefined : this.#nodes.store.get(nodeName);
    return node?.status.allocatable?.["ephemeral-storage"] !== undefined;
  }

  /** @param refused the names of nodes whose cell has refused these parts */
  plan(parts: readonly CheckpointPart[], refused: readonly string[] = []): CpuPlan {
    const needs = memoryPart(parts)?.needs;
    if (needs?.cpuFeatures === undefined) return anyNode;
    const nodes = this.#nodes.store.list().map((node) => this.#cpuOf(node, needs.engine));
    return planCpus(needs.cpuFeatures, nodes, refused);
  }

  #cpuOf(node: Node, version: string): NodeCpu {
    const { name, labels = {} } = node.metadata;
    return { name, labels, features: this.#features(this.#reportOf(node)?.cpus[version]) };
  }

  #features(id: string | undefined): ReadonlySet<string> | undefined {
    return id === undefined ? undefined : this.#list.features.get(id);
  }

  /** A report of an earlier start of the machine does not count: it may have another CPU now. */
  #reportOf({ metadata, status }: Node): NodeReport | undefined {
    const report = this.#list.nodes.get(metadata.name);
    return report?.boot === status.nodeInfo.bootID ? report : undefined;
  }

  #forget(names: readonly string[]): void {
    const known = names.filter((name) => this.#list.nodes.delete(name));
    if (known.length === 0) return;
    const used = new Set([...this.#list.nodes.values()].flatMap(({ cpus }) => Object.values(cpus)));
    const unused = [...this.#list.features.keys()].filter((id) => !used.has(id));
    for (const id of unused) this.#list.features.delete(id);
    void this.#save?.(Object.fromEntries([...known, ...unused.map(keyOfFeatures)].map((key) => [key, null])));
  }
}

const at = { namespace: systemNamespace, name: nodeCpusConfigMap };

/** The versions of gVisor of which a report is kept. More are not in use at the same time. */
const mostVersions = 4;

function latest(cpus: Record<string, string>, version: string): Record<string, string> {
  const others = Object.entries(cpus).filter(([other]) => other !== version);
  const own = cpus[version];
  const kept = new Map(others.slice(-(mostVersions - 1)));
  if (own !== undefined) kept.set(version, own);
  return Object.fromEntries(kept);
}

export const NodeReport = z.object({
  /** The start of the machine for which it holds. */
  boot: z.string(),
  /** The id of the set of features, by the version of gVisor: each version knows other features. */
  cpus: z.record(z.string(), z.string()),
});
export type NodeReport = z.infer<typeof NodeReport>;

/** The data of the ConfigMap: the name of each node, and `cpu.<id>` for each set of features. */
export interface CpuList {
  nodes: Map<string, NodeReport>;
  features: Map<string, ReadonlySet<string>>;
}

const featuresKey = /^cpu\.([0-9a-f]{12})$/;

/** Whether a node can be remembered: its name is not taken for a set of features. */
export function isNodeKey(name: string): boolean {
  return !featuresKey.test(name);
}

export function keyOfFeatures(id: string): string {
  return `cpu.${id}`;
}

/** The id of a set of features. Stable across releases, because the ConfigMap has it. */
export function featuresId(features: Iterable<string>): string {
  return createHash("sha256").update(formatFeatures(features)).digest("hex").slice(0, 12);
}

export function formatFeatures(features: Iterable<string>): string {
  return [...features].sort().join(",");
}

/** A cell is not trusted to report a short list. gVisor's list has about 100 names. */
const Features = z.array(z.string().regex(/^[\w.-]{1,40}$/)).max(1_000);

/** @returns undefined for a list that no CPU has */
export function readFeatures(reported: readonly string[] | undefined): string[] | undefined {
  const parsed = Features.safeParse(reported);
  return parsed.success && parsed.data.length > 0 ? parsed.data : undefined;
}

/** Reads the data of the ConfigMap. Entries that are not valid are left out: they are learned again. */
export function parseCpuList(data: Readonly<Record<string, string>> | null | undefined): CpuList {
  const list: CpuList = { nodes: new Map(), features: new Map() };
  for (const [key, text] of Object.entries(data ?? {})) {
    const [, id] = featuresKey.exec(key) ?? [];
    if (id !== undefined) {
      const features = readFeatures(text.split(","));
      if (features !== undefined) list.features.set(id, new Set(features));
      continue;
    }
    const report = parsedJson(NodeReport, text);
    if (report !== undefined) list.nodes.set(key, report);
  }
  return list;
}
