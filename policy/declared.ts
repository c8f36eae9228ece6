import { z } from "zod";
import type { PolicyResource } from "./rule.ts";

type Fields = Readonly<Record<string, unknown>>;

/** The spec of an object of a kind, when the resource declares one with Pulumi's Kubernetes provider; else undefined. */
export function specOf({ type, inputs }: PolicyResource, group: string, kind: string): Fields | undefined {
  if (!type.startsWith("kubernetes:") || inputs["kind"] !== kind) return undefined;
  const { apiVersion, spec } = z.object({ apiVersion: z.string(), spec: AnyFields.default({}) }).parse(inputs);
  return apiVersion.startsWith(`${group}/`) ? spec : undefined;
}

/** The same of one of Ramet's dynamic resources: its inputs. */
export function dynamicInputsOf({ type, inputs }: PolicyResource, className: string): Fields | undefined {
  return type === `pulumi-nodejs:dynamic/ramet:${className}` ? inputs : undefined;
}

/** What a named snapshot is to be, whichever way the program declares it. */
export function namedSnapshotOf(resource: PolicyResource): Fields | undefined {
  return dynamicInputsOf(resource, "NamedSnapshot") ?? specOf(resource, "ramet.dev", "NamedSnapshot");
}

export const kruise = "agents.kruise.io";

/** Passes objects on as they are: to look at each field would throw where one is not known yet. */
const AnyFields = z.custom<Fields>((value) => typeof value === "object" && value !== null && !Array.isArray(value));
