import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { parsePodTemplate, type PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { SandboxManifest } from "../../api/kinds/sandbox.ts";
import type { SandboxTemplate, SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterTemplatePrefix } from "../../api/names/system-names.ts";
import { requireNamespace } from "../object/get.ts";
import { findObject } from "../object/user-kind.ts";

export interface SourceOptions {
  /** A SandboxTemplate of the namespace. Without one of that name, `python` selects the local cluster's `ramet-python`. It must exist. */
  template?: string;
  image?: string;
  /** The id of a checkpoint. */
  from?: string;
  /** Added to the template's variables. */
  env?: Readonly<Record<string, string>>;
  /** Whether the sandbox contains its template, and does not refer to it. @default false, without variables */
  writtenOut?: boolean;
}

type Spec = NonNullable<SandboxManifest["spec"]>;

/**
 * The spec of a sandbox. It refers to the template by name, and contains a copy only if variables are added. A clone without
 * a template gets its source's from the controller.
 */
export async function sandboxSource(cluster: Cluster, options: SourceOptions): Promise<Spec> {
  const { template, image, from } = options;
  const environment = Object.entries(options.env ?? {});
  if (image !== undefined) {
    return { template: withEnvironment({ spec: { containers: [{ name: "sandbox", image }] } }, environment) };
  }
  if (template !== undefined) {
    const found = await templateNamed(cluster, template);
    if (environment.length === 0 && options.writtenOut !== true) return { templateRef: { name: found.metadata.name } };
    return writtenOut(found, environment);
  }
  if (from === undefined || environment.length === 0) return {};
  return writtenOut(await templateOfCheckpoint(cluster, from), environment);
}

/** The template of that name, or else the one that the local cluster provides. @throws RametError `NotFound` */
async function templateNamed(cluster: Cluster, name: string): Promise<SandboxTemplate> {
  const { templates, namespace, signal } = cluster;
  const own = await templates.find({ namespace, name }, { signal });
  const found = own ?? (await templates.find({ namespace, name: `${clusterTemplatePrefix}${name}` }, { signal }));
  if (found !== undefined) return found;
  await requireNamespace(cluster);
  // A sandbox without its template would wait for somebody to create it.
  return cluster.get(templates, name);
}

/** The controller stores the template of each checkpoint's source under the checkpoint's name. */
async function templateOfCheckpoint(cluster: Cluster, id: string) {
  const checkpoint = Checkpoint.parse(await findObject(cluster, "checkpoint", id));
  const { name, namespace } = checkpoint.metadata;
  const template = await cluster.templates.find({ name, namespace }, { signal: cluster.signal });
  if (template !== undefined) return template;
  throw new RametError("InvalidArgument", `Cannot add --env: the template of the checkpoint ${id} is not kept`, {
    hint: "Add the template of its source: --template NAME",
  });
}

function writtenOut(source: { metadata: { name: string }; spec: SandboxTemplateSpec }, environment: Variables): Spec {
  const { template, ...rest } = source.spec;
  const field = `the template ${source.metadata.name}: spec.template`;
  return { ...rest, template: withEnvironment(parsePodTemplate(template, field), environment) };
}

type Variables = readonly (readonly [name: string, value: string])[];

/** Later entries of a container's `env` win, as in Kubernetes; replaced entries are dropped. */
function withEnvironment(template: PodTemplateSpec, environment: Variables): PodTemplateSpec {
  const [main, ...others] = template.spec.containers;
  if (main === undefined || environment.length === 0) return template;
  const names = new Set(environment.map(([name]) => name));
  const env = [
    ...(main.env ?? []).filter(({ name }) => !names.has(name)),
    ...environment.map(([name, value]) => ({ name, value })),
  ];
  return { ...template, spec: { ...template.spec, containers: [{ ...main, env }, ...others] } };
}

/**
 * The id of the checkpoint with this name or id. A text that names no Checkpoint of the namespace is returned as it is: it may
 * be a named snapshot, which the controllers resolve.
 *
 * @throws RametError `CheckpointNotReady` if the checkpoint has no id yet
 */
export async function checkpointReference(cluster: Cluster, text: string): Promise<string> {
  try {
    const checkpoint = Checkpoint.parse(await findObject(cluster, "checkpoint", text));
    if (checkpoint.status?.checkpointId !== undefined) return checkpoint.status.checkpointId;
    throw new RametError(
      "CheckpointNotReady",
      `Cannot use the checkpoint ${text}: its capture has not started, so it has no id yet`,
      { hint: `See its state with: ramet checkpoint get ${text}` },
    );
  } catch (error) {
    if (RametError.from(error).code !== "NotFound") throw error;
    return text;
  }
}
