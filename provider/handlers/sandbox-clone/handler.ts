import * as z from "zod";
import { type Sandbox, sandboxKind, type SandboxManifest } from "../../../src/api/kinds/sandbox.ts";
import { parsePodTemplate, type PodTemplateSpec } from "../../../src/api/schema/pod-template.ts";
import { sandboxTemplateKind } from "../../../src/api/kinds/sandbox-template.ts";
import { defined } from "../../../src/base/defined.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import type { ResourceClient } from "../../../src/kube/resource-client.ts";
import { hasEnded } from "../../../src/api/state/sandbox.ts";
import { awaitSandbox } from "../../../src/operations/await-sandbox.ts";
import { follow, followed, InitFailed, settledObject } from "../follow.ts";
import {
  diffByTable,
  type DiffResult,
  type DiffTable,
  type HandlerContext,
  notFound,
  progressOf,
  type ResourceHandler,
  type Values,
} from "../handler.ts";
import { withCluster } from "../open-cluster.ts";
import { type PublishedGateway, publishedGateway, urlBelow } from "./gateway-url.ts";
import { applyOptionsFor, applyOwned, explainApplyError, isOwn, nameProblems } from "../owner.ts";
import { parseTimeSpan } from "../time-span.ts";
import { missingVolumes, volumesOfCheckpoint, checkpointTemplate } from "../missing-volumes.ts";
import { checkInputs } from "../validate.ts";
import { annotations, restoreFromAnnotations, ownerAnnotation } from "../../../src/api/names/labels.ts";
import { volumesOnRestore } from "../../../src/api/names/volumes-on-restore.ts";

export function sandboxCloneHandler(context: HandlerContext): ResourceHandler {
  return {
    check: async (olds, news) => {
      const { inputs, failures } = checkInputs(SandboxCloneInputs, news, ["lifetime", "timeout"]);
      // A clone that exists has its volumes.
      const isNew = olds["from"] === undefined;
      if (failures.length > 0) return { inputs, failures };
      const [taken, volumes] = await Promise.all([
        nameProblems(context, { olds, inputs }, (client, at, signal) => client.of(sandboxKind).find(at, { signal })),
        isNew ? volumesOfCheckpoint(context, inputs) : [],
      ]);
      return { inputs, failures: [...taken, ...missingVolumes(volumes, inputs)] };
    },
    diff: (_id, olds, news) => Promise.resolve(diffSandboxClone(olds, news)),
    create: async (values) => {
      const inputs = SandboxCloneInputs.parse(values);
      const id = `${inputs.namespace}/${inputs.name}`;
      return { id, outs: await apply(context, inputs, id) };
    },
    update: async (id, olds, news) => ({
      outs: await apply(context, SandboxCloneInputs.parse(news), id, SandboxCloneInputs.parse(olds)),
    }),
    read: (id, props) => read(context, id, props),
    delete: (_id, props) => remove(context, SandboxCloneInputs.parse(props)),
  };
}

/**
 * Creates the clone and waits until it is ready. A repeated call continues what an earlier one started. @param olds the
 * clone's state
 */
async function apply(
  context: HandlerContext,
  requested: SandboxCloneInputs,
  id: string,
  olds?: SandboxCloneInputs,
): Promise<Values> {
  return withCluster(context, async (client) => {
    const sandboxes = client.of(sandboxKind);
    const at = { namespace: requested.namespace, name: requested.name };
    const before = await sandboxes.find(at);
    // Refuses the sandbox of others before one that has ended is deleted.
    applyOptionsFor(before, requested.owner, olds);
    // A clone that has ended keeps its name until it is deleted.
    const existing = before !== undefined && hasEnded(before) ? undefined : before;
    if (before !== undefined && existing === undefined) await deleteSandbox(sandboxes, before, context);
    const inputs = existing === undefined || olds === undefined ? requested : { ...requested, ports: olds.ports };
    const declare = async (): Promise<Sandbox> => {
      const template = await templateOf(client, inputs, existing).catch((error: unknown) => {
        throw explainApplyError(error, "Sandbox", at);
      });
      const declared = { found: existing, owner: requested.owner, former: olds };
      return applyWithShutdownTime(inputs, { existing, now: client.clock.now() }, (end) =>
        applyOwned(sandboxes, manifestOf(inputs, { ...template, ...end }), declared),
      );
    };
    const from = await declare();
    const log = progressOf(context, inputs.name);
    try {
      const wait = { timeoutMilliseconds: parseTimeSpan(inputs.timeout, "timeout"), signal: context.signal };
      const settled = await awaitSandbox({ sandboxes: followed(sandboxes, log) }, from, wait);
      const hint = `Run: ramet explain sandbox/${inputs.name} -n ${inputs.namespace}`;
      return outputs(inputs, settledObject(settled, { log, hint }), await publishedGateway(client));
    } catch (error) {
      const last = await sandboxes.find(at).catch(() => undefined);
      throw new InitFailed(id, outputs(inputs, last), RametError.from(error));
    }
  });
}

/** @param gateway how the cluster's users reach the gateways, if they have a domain */
function outputs(inputs: SandboxCloneInputs, found: Sandbox | undefined, gateway?: PublishedGateway): Values {
  const { sandboxIp, ramet } = found?.status ?? {};
  const [port] = inputs.ports ?? [];
  const url = found && port && (gateway ? urlBelow(gateway, found, port) : sandboxIp && urlOf(sandboxIp, port));
  // Those of an earlier sandbox are no longer true.
  const { url: _, ...others } = inputs;
  return {
    ...others,
    ...defined({
      uid: found?.metadata.uid,
      shutdownTime: found?.spec.shutdownTime,
      checkpointId: ramet?.restoredFrom,
      address: sandboxIp,
      url,
    }),
  };
}

function urlOf(address: string, port: number): string {
  return `http://${address.includes(":") ? `[${address}]` : address}:${port}`;
}

async function read(context: HandlerContext, id: string, props: Values): ReturnType<ResourceHandler["read"]> {
  const [namespace, name = ""] = id.split("/");
  const state = SandboxCloneInputs.parse(props);
  const [found, gateway] = await withCluster(context, (client) =>
    Promise.all([client.of(sandboxKind).find({ namespace, name }), publishedGateway(client)]),
  );
  // A clone that has ended counts as deleted, so that the next one can use its name.
  if (found === undefined || hasEnded(found) || !isOwn(found, state)) return notFound;
  return { id, props: outputs(observedLifetime(state, found), found, gateway) };
}

async function remove(context: HandlerContext, { name, namespace, ...state }: SandboxCloneInputs): Promise<void> {
  await withCluster(context, async (client) => {
    const sandboxes = client.of(sandboxKind);
    const found = await sandboxes.find({ namespace, name });
    if (found === undefined || !isOwn(found, state)) return;
    await deleteSandbox(sandboxes, found, context);
  });
}

async function deleteSandbox(
  resource: ResourceClient<Sandbox>,
  from: Sandbox,
  { signal }: HandlerContext,
): Promise<void> {
  const { metadata } = from;
  await resource.delete(metadata, { uid: metadata.uid });
  const wait = { timeoutMilliseconds: deletionMilliseconds, signal };
  const what = `the deletion of the sandbox ${metadata.name}`;
  await follow({ resource, from, what, until: (seen) => seen === undefined, ...wait });
}

const deletionMilliseconds = 120_000;

/**
 * The Pod template of a clone: the named one, or that of its checkpoint, with the requested ports. Without both the spec has no
 * template, and the controller uses the checkpoint's.
 * @param existing the existing clone, if any. It keeps its template, which a resume compares with the checkpoint: the named one may
 *   be gone
 * @throws RametError `NotFound` or `CheckpointNotReady` if there is no template to add the ports to
 */
export async function templateOf(
  client: KubeClient,
  { namespace, from, template, templateName, ports = [] }: SandboxCloneInputs,
  existing: Sandbox | undefined,
): Promise<Pick<SandboxManifest["spec"], "template" | "templateRef" | "volumeClaimTemplates">> {
  if (ports.length === 0) return templateName === undefined ? {} : { templateRef: { name: templateName } };
  const named = async (name: string) => (await client.of(sandboxTemplateKind).get({ namespace, name })).spec;
  const chosen = () => (templateName === undefined ? template : named(templateName));
  const spec = existing?.spec ?? (await chosen()) ?? (await checkpointTemplate(client, namespace, from));
  const { volumeClaimTemplates } = spec as Sandbox["spec"];
  return {
    template: withPorts(parsePodTemplate(spec.template), ports),
    ...defined({ volumeClaimTemplates }),
  };
}

/** Only declared ports are reachable at the Pod's address. A restore does not compare them. */
function withPorts(template: PodTemplateSpec, ports: readonly number[]): PodTemplateSpec {
  const [main, ...others] = template.spec.containers;
  if (main === undefined) return template;
  const known = main.ports ?? [];
  const added = ports.filter((port) => !known.some(({ containerPort }) => containerPort === port));
  const all = [...known, ...added.map((containerPort) => ({ containerPort }))];
  return { ...template, spec: { ...template.spec, containers: [{ ...main, ports: all }, ...others] } };
}

/**
 * Applies a clone with a shutdown time relative to its creation by the API server. The creation time is unknown
 * beforehand and clocks differ, so the clone is applied again if the first shutdown time was wrong.
 * @param existing the existing clone, if any
 */
export async function applyWithShutdownTime(
  inputs: SandboxCloneInputs,
  { existing, now }: { existing: Sandbox | undefined; now: Date },
  declare: (end: { shutdownTime?: string }) => Promise<Sandbox>,
): Promise<Sandbox> {
  const expected = shutdownTimeOf(inputs, existing?.metadata.creationTimestamp ?? now);
  const declared = await declare(expected);
  const exact = shutdownTimeOf(inputs, declared.metadata.creationTimestamp);
  return exact.shutdownTime === expected.shutdownTime ? declared : declare(exact);
}

/** The shutdown time (RFC 3339) of a clone that was created at `madeAt`. Absent without a lifetime. */
function shutdownTimeOf({ lifetime }: SandboxCloneInputs, madeAt: Date | string): { shutdownTime?: string } {
  if (lifetime === undefined) return {};
  const ends = new Date(madeAt).getTime() + parseTimeSpan(lifetime, "lifetime");
  return { shutdownTime: new Date(ends).toISOString().replace(/\.\d+Z$/, "Z") };
}

/**
 * Returns the inputs with the lifetime that was set in the cluster since. The controller moves the shutdown time of a
 * paused clone.
 */
export function observedLifetime(inputs: SandboxCloneInputs, { metadata, spec }: Sandbox): SandboxCloneInputs {
  const { shutdownTime: declared } = shutdownTimeOf(inputs, metadata.creationTimestamp);
  const { shutdownTime: seen, paused } = spec;
  if (declared === undefined || declared === seen || paused === true) return inputs;
  const { lifetime: _, ...others } = inputs;
  if (seen === undefined) return others;
  const seconds = (Date.parse(seen) - Date.parse(metadata.creationTimestamp)) / 1000;
  return { ...others, lifetime: `${Math.max(1, seconds)} seconds` };
}

const Port = z.int().min(1).max(65_535);

export const SandboxCloneInputs = z.looseObject({
  name: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: lower-case letters, digits and '-', at most 63",
    ),
  namespace: z.string().min(1),
  /** A checkpoint id, or a named snapshot with or without a version. */
  from: z.string().min(1),
  /** The spec of the SandboxTemplate that the snapshot was built from, if the program knows it. */
  template: z.looseObject({ template: z.record(z.string(), z.unknown()).optional() }).optional(),
  /** The SandboxTemplate that replaces that of the source. */
  templateName: z.string().min(1).optional(),
  /** Ports that are reachable at the sandbox's address. The URL uses the first. */
  ports: z.array(Port).optional(),
  /** Those that gateways proxy without a token. */
  publicPorts: z.array(Port).optional(),
  /** Whether the ports come from the snapshot's recipe rather than from the program. */
  portsFollow: z.boolean().optional(),
  /** The time after which the sandbox is deleted, such as `8 hours`. */
  lifetime: z.string().optional(),
  /** The choice of the clone's volumes, if the source has PersistentVolumeClaims. */
  volumesOnRestore: z.enum(volumesOnRestore).optional(),
  timeout: z.string(),
  owner: z.string(),
});
export type SandboxCloneInputs = z.infer<typeof SandboxCloneInputs>;

/** A clone keeps its source: any other source requires a replacement. */
const sandboxCloneDiff: DiffTable = {
  immutable: ["name", "namespace", "from", "templateName", "ports", "volumesOnRestore"],
  mutable: ["lifetime", "publicPorts"],
};

/** A clone also keeps the ports of its recipe when the recipe changes. */
export function diffSandboxClone(olds: Values, news: Values): DiffResult {
  // A state without `portsFollow`, from an earlier version, is assumed to follow.
  const follows = news["portsFollow"] === true && olds["portsFollow"] !== false;
  return diffByTable(sandboxCloneDiff, olds, follows ? { ...news, ports: olds["ports"] } : news);
}

function manifestOf(inputs: SandboxCloneInputs, spec: SandboxManifest["spec"]): SandboxManifest {
  const { name, namespace, from, owner, volumesOnRestore: volumes, publicPorts } = inputs;
  return {
    apiVersion: sandboxKind.apiVersion,
    kind: "Sandbox",
    metadata: {
      name,
      namespace,
      annotations: defined({
        [restoreFromAnnotations[0]]: from,
        [ownerAnnotation]: owner,
        [annotations.volumesOnRestore]: volumes,
        [annotations.publicPorts]: publicPorts?.join(","),
      }),
    },
    spec,
  };
}
