import { apiKeyKind } from "../../src/api/kinds/api-key.ts";
import { namedSnapshotKind, NamedSnapshotSpec } from "../../src/api/kinds/named-snapshot.ts";
import { type Sandbox, sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { annotations, ownerAnnotation, restoreFromAnnotations } from "../../src/api/names/labels.ts";
import { canonicalJson } from "../../src/base/canonical-json.ts";
import { defined } from "../../src/base/defined.ts";
import { RametError } from "../../src/base/errors.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import type { KubeObject } from "../../src/kube/object.ts";
import { apiKeyHandler } from "../handlers/api-key/handler.ts";
import type { HandlerContext, ResourceHandler, Values } from "../handlers/handler.ts";
import { namedSnapshotHandler } from "../handlers/named-snapshot/handler.ts";
import { specProperties } from "../handlers/named-snapshot/inputs.ts";
import { readinessHandler } from "../handlers/readiness/handler.ts";
import { observedLifetime, sandboxCloneHandler } from "../handlers/sandbox-clone/handler.ts";
import { snapshotInputs, snapshotProperties } from "./snapshot-shape.ts";

/** One type of resource: its handler, and how the properties of the schema correspond to those of the handler. */
export interface ResourceType {
  handler: (context: HandlerContext) => ResourceHandler;
  /** Defaults of the properties that the handler requires. */
  defaults: Values;
  /** From the properties of the schema, of a program or a state, or from a state of the dynamic resource. */
  toHandler: (values: Values) => Values;
  /** What the handler has to know of a program's inputs besides. */
  noted?: (inputs: Values) => Values;
  /** The reverse of `toHandler`. */
  toSchema: (values: Values) => Values;
  /** Finds the object. Absent if the resource has none. */
  find?: (client: KubeClient, at: ObjectPlace) => Promise<KubeObject | undefined>;
  /** The handler's inputs of an object that nobody declares, without defaults. Absent if the object does not have all of its state. */
  imported?: (object: KubeObject) => Values;
  /** The outputs that change with the digest, and the inputs that the digest depends on. */
  built: { outputs: readonly string[]; inputs: readonly string[] };
}

export interface ObjectPlace {
  namespace: string;
  name: string;
}

const nothing = { outputs: [], inputs: [] };
const same = (values: Values): Values => values;

export const resourceTypes: Readonly<Record<string, ResourceType>> = {
  "ramet:index:NamedSnapshot": {
    handler: namedSnapshotHandler,
    defaults: { recipe: [], timeout: "1 hour" },
    toHandler: snapshotInputs,
    toSchema: snapshotProperties,
    find: (client, at) => client.of(namedSnapshotKind).find(at),
    imported: ({ spec }: KubeObject & { spec?: Values }) =>
      Object.fromEntries(
        specProperties
          .map((property): [string, unknown] => [property, spec?.[property]])
          .filter(([property, value]) => value !== undefined && !isDefault(property, value)),
      ),
    built: {
      outputs: ["digest", "version", "checkpointId", "reference", "sizeBytes", "createdAt", "engine"],
      inputs: ["from", "recipe", "secrets", "contents", "volumes", "layers"],
    },
  },
  "ramet:index:SandboxClone": {
    handler: sandboxCloneHandler,
    defaults: { timeout: "5 minutes" },
    toHandler: ({ template, ...values }) => ({
      ...values,
      ...(typeof template === "string" ? { templateName: template } : defined({ template })),
    }),
    noted: ({ ports }) => ({ portsFollow: ports === undefined }),
    toSchema: ({ template: _, templateName, ...values }) => ({ ...values, ...defined({ template: templateName }) }),
    find: (client, at) => client.of(sandboxKind).find(at),
    imported: (object) => importedClone(object as Sandbox),
    built: nothing,
  },
  "ramet:index:ApiKey": {
    handler: apiKeyHandler,
    defaults: { format: "e2b", grace: "1 hour" },
    toHandler: same,
    toSchema: same,
    find: (client, at) => client.of(apiKeyKind).find(at),
    built: nothing,
  },
  "ramet:index:Readiness": {
    handler: readinessHandler,
    defaults: { revision: "", timeout: "10 minutes" },
    toHandler: same,
    toSchema: same,
    built: nothing,
  },
};

/** Whether the API server sets the value if a program does not. */
function isDefault(property: string, value: unknown): boolean {
  const { data, success } = NamedSnapshotSpec.shape[property as keyof NamedSnapshotSpec].safeParse(undefined);
  return success && canonicalJson(data) === canonicalJson(value);
}

/** The type of a URN. @throws RametError */
export function resourceTypeOf(urn: string): { token: string; type: ResourceType; name: string } {
  const [, , types = "", ...names] = urn.split("::");
  const token = (types.split("$").at(-1) ?? "").replace(/^pulumi-nodejs:dynamic\/ramet:/, "ramet:index:");
  const type = Object.hasOwn(resourceTypes, token) ? resourceTypes[token] : undefined;
  if (type === undefined) throw new RametError("NotSupported", `This provider has no resource type ${token}`);
  return { token, type, name: names.join("::") };
}

/** Identifies the declaring resource and its stack. The engine does not tell a provider the organization: it is a setting. */
export function ownerOfUrn(urn: string, organization?: string): string {
  const [stack = "", project = "", , ...name] = urn.replace(/^urn:pulumi:/, "").split("::");
  return [...(organization === undefined ? [] : [organization]), project, stack, name.join("::")].join("/");
}

/**
 * The handler's inputs of an existing object, for `pulumi import` and `get`. Undefined if there is none.
 * @throws RametError `AlreadyExists` if another program declares it; `NotSupported` if it cannot be imported
 */
export async function importedInputs(
  client: KubeClient,
  { token, type }: { token: string; type: ResourceType },
  { id, owner }: { id: string; owner: string },
): Promise<Values | undefined> {
  const [namespace = "", name = "", ...others] = id.split("/");
  if (type.find === undefined || type.imported === undefined) {
    throw new RametError("NotSupported", `A resource of the type ${token} cannot be imported`, {
      hint: "Declare a new one: the object does not have all of its state",
    });
  }
  if (name === "" || others.length > 0) {
    throw new RametError("InvalidArgument", `The id ${id} is not NAMESPACE/NAME`);
  }
  const found = await type.find(client, { namespace, name });
  if (found === undefined) return undefined;
  const declared = found.metadata.annotations?.[ownerAnnotation];
  if (declared !== undefined && declared !== owner) {
    throw new RametError("AlreadyExists", `${id} is declared by ${declared}`, {
      hint: `Remove it from that program first, and then the annotation ${ownerAnnotation} from the object`,
    });
  }
  return { ...type.defaults, ...type.imported(found), namespace, name, owner };
}

/** @throws RametError `InvalidArgument` if the sandbox is not a clone */
function importedClone(sandbox: Sandbox): Values {
  const { metadata, spec } = sandbox;
  const from = restoreFromAnnotations.map((key) => metadata.annotations?.[key]).find((one) => one !== undefined);
  if (from === undefined) {
    throw new RametError("InvalidArgument", `The sandbox ${metadata.name} is not a clone: it was made of a template`);
  }
  const { name, namespace } = metadata;
  const inputs = { name, namespace, from, timeout: "", owner: "", lifetime: "1 second" };
  // The controller moves the shutdown time of a paused clone.
  const lifetime = spec.paused === true ? undefined : observedLifetime(inputs, sandbox).lifetime;
  return defined({
    from,
    templateName: spec.templateRef?.name,
    volumesOnRestore: metadata.annotations?.[annotations.volumesOnRestore],
    lifetime,
    portsFollow: true,
  });
}
