import { createHash } from "node:crypto";
import { parsedJson } from "../../base/tolerant-parse.ts";
import * as z from "zod";

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
