import * as z from "zod";
import { defined } from "../../base/defined.ts";
import { type KindNames, type PrinterColumn, group as sharedGroup, version } from "../schema/kind.ts";
import { apiKeyKind } from "./api-key.ts";
import { checkpointKind } from "./checkpoint.ts";
import { clientSecretKind } from "./client-secret.ts";
import { namedSnapshotKind } from "./named-snapshot.ts";
import { sandboxClaimKind } from "./sandbox-claim.ts";
import { sandboxSetKind } from "./sandbox-set.ts";
import { sandboxTemplateKind } from "./sandbox-template.ts";
import { sandboxKind } from "./sandbox.ts";

type JsonSchema = Record<string, unknown>;

export interface CustomResourceDefinition {
  apiVersion: "apiextensions.k8s.io/v1";
  kind: "CustomResourceDefinition";
  metadata: { name: string; annotations: Record<string, string> };
  spec: {
    group: string;
    names: Omit<KindNames, "group"> & { listKind: string };
    scope: "Namespaced";
    versions: {
      name: string;
      served: boolean;
      storage: boolean;
      schema: { openAPIV3Schema: JsonSchema };
      subresources?: JsonSchema;
      additionalPrinterColumns?: PrinterColumn[];
    }[];
  };
}

interface CrdSource extends KindNames {
  description: string;
  manifest: z.ZodType;
  status?: z.ZodType;
  columns: PrinterColumn[];
  scale?: Record<string, string>;
}

/** On a CRD: Ramet made it, and may change it. A CRD of another project with the same name is only read. */
export const crdMark = "ramet.dev/crd";

export function renderCrds(): CustomResourceDefinition[] {
  return kinds.map((kind) => renderCrd(kind));
}

/** The CRD with this name. Undefined: it is none of Ramet's. */
export function renderCrdNamed(name: string): CustomResourceDefinition | undefined {
  const kind = kinds.find((one) => crdName(one) === name);
  return kind && renderCrd(kind);
}

/** The CRDs without their schemas, whose rendering takes time. */
export function crdNames(): { name: string; group: string; plural: string }[] {
  return kinds.map((kind) => ({ name: crdName(kind), group: groupOf(kind), plural: kind.plural }));
}

function groupOf({ group = sharedGroup }: KindNames): string {
  return group;
}

function crdName(kind: KindNames): string {
  return `${kind.plural}.${groupOf(kind)}`;
}

export function renderCrd(source: CrdSource): CustomResourceDefinition {
  const { kind, plural, singular, shortNames, status, scale, columns } = source;
  const subresources = { ...(status && { status: {} }), ...defined({ scale }) };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: crdName(source), annotations: { [crdMark]: "true" } },
    spec: {
      group: groupOf(source),
      names: { kind, listKind: `${kind}List`, plural, singular, shortNames },
      scope: "Namespaced",
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: rootSchema(source) },
          ...(Object.keys(subresources).length > 0 && { subresources }),
          ...(columns.length > 0 && { additionalPrinterColumns: columns }),
        },
      ],
    },
  };
}

/** A CRD may only declare the types of `apiVersion`, `kind` and `metadata`, which the API server owns. */
function rootSchema({ kind, manifest, status, description }: CrdSource): JsonSchema {
  const schema = structuralSchema(manifest);
  const {
    apiVersion: _version,
    kind: _kind,
    metadata: _metadata,
    spec,
    status: statusSchema,
    ...rest
  } = child(schema, "properties");
  return {
    ...schema,
    description,
    properties: {
      apiVersion: { type: "string" },
      kind: { type: "string" },
      metadata: { type: "object" },
      ...rest,
      spec: { description: `The requested state of the ${kind}.`, ...(spec as JsonSchema) },
      ...(status && {
        status: { description: "The state that the controllers have observed.", ...(statusSchema as JsonSchema) },
      }),
    },
    required: ["spec"],
  };
}

/**
 * The structural schema of a zod schema. It is zod's JSON schema with small changes. `.meta({ crd })` replaces the schema of a
 * field; other `.meta` (formats, `x-kubernetes-*`) is added to it.
 */
function structuralSchema(schema: z.ZodType): JsonSchema {
  const { $schema: _dialect, ...rendered } = z.toJSONSchema(schema, {
    io: "input",
    target: "openapi-3.0",
    unrepresentable: "any",
    reused: "inline",
    override: ({ jsonSchema }) => {
      adapt(jsonSchema);
    },
  });
  return rendered;
}

/** Adapts the JSON schema of one field to a CRD, in place as zod requires. */
function adapt(place: JsonSchema): void {
  if ("crd" in place) {
    const { crd, description } = place;
    for (const key of Object.keys(place)) Reflect.deleteProperty(place, key);
    Object.assign(place, crd, description !== undefined && { description });
    return;
  }
  if (place["type"] === "integer") {
    // zod limits every integer to the safe range of a double; Kubernetes uses the format instead.
    if (place["maximum"] === Number.MAX_SAFE_INTEGER) delete place["maximum"];
    if (place["minimum"] === Number.MIN_SAFE_INTEGER) delete place["minimum"];
    place["format"] ??= "int64";
  }
  // A format of zod that the API server warns about. The pattern next to it says the same.
  if (place["format"] === "starts_with") delete place["format"];
  const additional = place["additionalProperties"];
  if (additional === false) delete place["additionalProperties"];
  if (Array.isArray(place["x-kubernetes-validations"]) && place["x-kubernetes-validations"].length === 0) {
    delete place["x-kubernetes-validations"];
  }
  delete place["propertyNames"];
}

function child(schema: JsonSchema, key: string): JsonSchema {
  return schema[key] as JsonSchema;
}

/** All kinds, in the order in which their CRDs are installed. */
export const kinds = [
  sandboxKind,
  sandboxSetKind,
  sandboxTemplateKind,
  sandboxClaimKind,
  checkpointKind,
  namedSnapshotKind,
  apiKeyKind,
  clientSecretKind,
] as const;
