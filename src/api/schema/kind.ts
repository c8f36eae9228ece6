import * as z from "zod";
import { ManifestMeta, ObjectMeta } from "./metadata.ts";
import { type Rule, withRules } from "./rules.ts";

export const group = "agents.kruise.io";
export const version = "v1alpha1";
/** Of all kinds that we share with OpenKruise Agents. */
export const apiVersion = `${group}/${version}`;
/** Of the kinds that are Ramet's own. */
export const rametGroup = "ramet.dev";

/** One column of `kubectl get`. */
export interface PrinterColumn {
  name: string;
  type: "string" | "integer" | "date";
  jsonPath: string;
  /** Above 0: shown only by `-o wide`. */
  priority?: number;
}

export interface KindNames {
  /** Absent: `agents.kruise.io`. */
  group?: string;
  kind: string;
  plural: string;
  singular: string;
  shortNames: string[];
}

interface KindParts<
  Kind extends string,
  Spec extends z.ZodType,
  Status extends z.ZodType,
  Group extends string,
> extends KindNames {
  group?: Group;
  kind: Kind;
  description: string;
  spec: Spec;
  /** Absent: the kind has no status, and no status subresource. */
  status?: Status;
  columns: PrinterColumn[];
  scale?: { specReplicasPath: string; statusReplicasPath: string; labelSelectorPath?: string };
  /** Rules about the whole object; in CEL only `metadata.name` and `metadata.generateName` of the metadata can be seen. */
  rules?: readonly Rule<{ metadata: ManifestMeta }>[];
}

/**
 * A kind of `agents.kruise.io/v1alpha1`, or of another group.
 * `object` reads what the API server answers; `manifest` judges what somebody is about to write; `crd.ts` renders the
 * CRD from `manifest`, so the API server judges by the same schema.
 */
export function defineKind<
  Kind extends string,
  Spec extends z.ZodType,
  Status extends z.ZodType,
  Group extends string = typeof group,
>(parts: KindParts<Kind, Spec, Status, Group>) {
  // Without a group of its own, `Group` is the type of the default.
  const ownGroup = parts.group ?? (group as Group);
  const ownApiVersion = `${ownGroup}/${version}` as const;
  const body = {
    apiVersion: z.literal(ownApiVersion),
    kind: z.literal(parts.kind),
    spec: parts.spec,
    status: (parts.status ?? z.undefined()).optional() as z.ZodOptional<Status>,
  };
  return {
    ...parts,
    group: ownGroup,
    apiVersion: ownApiVersion,
    object: z.object({ ...body, metadata: ObjectMeta }),
    manifest: withRules(z.object({ ...body, metadata: ManifestMeta }), parts.rules ?? []),
  };
}
