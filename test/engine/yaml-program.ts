import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import * as z from "zod";
import type { ConstructCall } from "./plugin-resources.ts";
import type { Deployment, Registered } from "./deployment.ts";
import { unknownText, type Values } from "./values.ts";

const YamlProgram = z.object({
  name: z.string(),
  runtime: z.literal("yaml"),
  resources: z.record(z.string(), z.object({ type: z.string(), properties: z.record(z.string(), z.unknown()) })),
  outputs: z.record(z.string(), z.unknown()).default({}),
});
export type YamlProgram = z.infer<typeof YamlProgram>;

/** The program of a directory, if it is one in YAML. Only resources with properties, and outputs, are read. */
export async function readYamlProgram(directory: string): Promise<YamlProgram | undefined> {
  const text = await readFile(join(directory, "Pulumi.yaml"), "utf8").catch(() => "{}");
  return YamlProgram.safeParse(parse(text)).data;
}

export interface YamlRun {
  deployment: Deployment;
  construct: (call: ConstructCall) => Promise<Registered>;
  stack: string;
  project: string;
  preview: boolean;
}

/** Registers the resources of a program in their order, as Pulumi's language host for YAML does: `${python.spec}` is an output. */
export async function runYamlProgram({ resources, outputs }: YamlProgram, run: YamlRun): Promise<void> {
  const { deployment, construct, stack, project, preview } = run;
  const common = { aliases: [], additionalSecrets: [], retainOnDelete: false };
  const root = { ...common, type: "pulumi:pulumi:Stack", name: `${project}-${stack}`, parent: "", custom: false };
  const { urn: parent } = await deployment.register({ ...root, inputs: {}, dependencies: [] });
  const made: Record<string, Registered> = {};
  for (const [name, { type, properties }] of Object.entries(resources)) {
    const { value: inputs, urns } = resolved(properties, made, preview) as { value: Values; urns: string[] };
    const token = type.replace(/^ramet:(?!index:)/, "ramet:index:");
    const registration = { ...common, type: token, name, parent, inputs, dependencies: urns };
    made[name] = isComponent(token)
      ? await construct({ ...registration, project, stack, preview })
      : await deployment.register({ ...registration, custom: true });
  }
  deployment.registerOutputs(parent, resolved(outputs, made, preview).value as Values);
}

function isComponent(type: string): boolean {
  return /^ramet:index:(Sandbox(Template|Set)?|RametRuntime|SnapshotStack)$/.test(type);
}

interface Resolved {
  value: unknown;
  /** The resources that it depends on. */
  urns: string[];
}

function resolved(value: unknown, made: Record<string, Registered>, preview: boolean): Resolved {
  if (typeof value === "string") return reference(value, made, preview);
  if (typeof value !== "object" || value === null) return { value, urns: [] };
  const parts = Object.entries(value).map(([key, inner]) => ({ key, ...resolved(inner, made, preview) }));
  const urns = [...new Set(parts.flatMap((part) => part.urns))];
  if (Array.isArray(value)) return { value: parts.map((part) => part.value), urns };
  return { value: Object.fromEntries(parts.map((part) => [part.key, part.value])), urns };
}

function reference(text: string, made: Record<string, Registered>, preview: boolean): Resolved {
  const found = /^\$\{([^.}]+)\.([^.}]+)\}$/.exec(text);
  if (found === null) return { value: text, urns: [] };
  const [, name = "", property = ""] = found;
  const source = made[name];
  if (source === undefined) throw new Error(`${text}: no resource ${name} is declared above`);
  const value = source.outputs[property];
  if (value === undefined && !preview) throw new Error(`${text}: ${name} has no output ${property}`);
  return { value: value ?? unknownText, urns: [source.urn] };
}
