import * as z from "zod";
import { ManifestMeta, ObjectMeta } from "./metadata.ts";
import { type Rule, withRules } from "./rules.ts";

export const group = "agents.kruise.io";
export const version = "v1alpha1";
/** The API version of the kinds shared with OpenKruise Agents. */
export const apiVersion = `${group}/${version}`;
export const rametGroup = "ramet.dev";
export const rametApiVersion = `${rametGroup}/${version}`;

/** One column of `kubectl get`. */
export interface PrinterColumn {
  name: string;
  type: "string" | "integer" | "date";
  jsonPath: string;
  /** Columns above 0 are shown only by `-o wide`. */
  priority?: number;
}

export interface KindNames {
  /** @default agents.kruise.io */
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
  /** Without it, the kind has no status subresource. */
  status?: Status;
  columns: PrinterColumn[];
  scale?: { specReplicasPath: string; statusReplicasPath: string; labelSelectorPath?: string };
  /** Rules about the whole object. CEL sees only `metadata.name` and `metadata.generateName` of the metadata. */
  rules?: readonly Rule<{ metadata: ManifestMeta }>[];
}

/**
 * Defines a kind of `agents.kruise.io/v1alpha1` or of another group. `object` parses responses of the API server; `manifest`
 * validates an object before it is written. `crd.ts` renders the CRD from `manifest`, so the API server validates by the same
 * schema.
 */
export function defineKind<
  Kind extends string,
  Spec extends z.ZodType,
  Status extends z.ZodType,
  Group extends string = typeof group,
>(parts: KindParts<Kind, Spec, Status, Group>) {
  // Without `group`, `Group` is the type of the default.
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
