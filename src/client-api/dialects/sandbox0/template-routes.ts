import * as z from "zod";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import type { SandboxSet } from "../../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../../api/kinds/sandbox-template.ts";
import { annotations } from "../../../api/names/labels.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { defined } from "../../../base/defined.ts";
import { RametError, resultOr } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { requestIdOf } from "../../routes/route.ts";
import { deleteSnapshot } from "../../service/delete-snapshot.ts";
import { takeSnapshot } from "../../service/key-limits.ts";
import { snapshotName } from "../../service/snapshot-name.ts";
import { createSnapshot } from "../../service/snapshots.ts";
import { findSource, findTemplate, keptSpec, listTemplates, templateName } from "../../service/source.ts";
import {
  type Call,
  envelope,
  route,
  type Sandbox0,
  type Sandbox0Route,
  sandboxOf,
  success,
  timeoutMilliseconds,
} from "./call.ts";
import { FromSandbox } from "./schemas.ts";

const templates = "/api/v1/templates";

const Creation = z.object({ state: z.enum(["creating", "ready"]), stage: z.literal("publishing") });

const Template = z
  .object({
    template_id: z.string(),
    scope: z.literal("team"),
    team_id: z.string().describe("The namespace."),
    spec: z.object({
      description: z.string(),
      displayName: z.string().optional(),
      mainContainer: z.object({ image: z.string(), resources: z.object({ memory: z.string() }) }),
    }),
    status: z
      .object({ idleCount: z.int(), activeCount: z.int(), creation: Creation.optional() })
      .describe("The ready sandboxes of a set, and whether a named snapshot has a version."),
    created_at: z.iso.datetime({ offset: true }),
    updated_at: z.iso.datetime({ offset: true }),
  })
  .meta({ id: "Template" });

export const templateRoutes: readonly Sandbox0Route[] = [
  route("GET", templates, {
    summary:
      "Lists the sets, templates and named snapshots of the namespace, but templates that were kept for checkpoints.",
    needs: [...needs.listSources, ...needs.listTemplates],
    answers: { 200: envelope(z.object({ templates: z.array(Template), count: z.int() })) },
    handle: ({ service }, { caller: { namespace } }) => {
      const snapshots = service.known.snapshotsIn(namespace).map((each) => snapshotTemplate(service, each));
      const all = [...listTemplates(service, namespace).map(templateView), ...snapshots];
      return success({ templates: all, count: all.length });
    },
  }),
  route("GET", `${templates}/:template`, {
    summary: "Describes a set, a template or a named snapshot.",
    needs: [...needs.readSource, ...needs.readTemplate],
    answers: { 200: envelope(Template) },
    handle: ({ service }, { params: { template = "" }, caller: { namespace } }) => {
      const snapshot = service.known.snapshot(`${namespace}/${template}`);
      const isHidden = service.known.set(`${namespace}/${template}`) !== undefined;
      if (snapshot !== undefined && !isHidden) return success(snapshotTemplate(service, snapshot));
      return success(templateView(findTemplate(service, namespace, template)));
    },
  }),
  route("POST", `${templates}/from-sandbox`, {
    summary: "Captures the files of a sandbox as a named snapshot, which can be claimed as a template.",
    needs: [...needs.capture, ...needs.nameSnapshot],
    body: FromSandbox,
    answers: { 202: envelope(Template) },
    handle: fromSandbox,
  }),
  route("DELETE", `${templates}/:template`, {
    summary: "Deletes a named snapshot with its versions. Sandboxes that were claimed from it stay.",
    needs: needs.deleteSnapshot,
    answers: { 200: envelope(z.object({ message: z.string() })) },
    handle: async ({ service }, { params: { template = "" }, caller: { namespace }, signal }) => {
      await deleteSnapshot(service, namespace, template, signal);
      return success({ message: "template deleted" });
    },
  }),
];

async function fromSandbox(sandbox0: Sandbox0, call: Call<typeof FromSandbox>) {
  const { service } = sandbox0;
  const { request, caller, signal, body } = call;
  const { spec_overrides: { description, displayName: title, tags = [], pool } = {} } = body;
  if (tags.length > 0)
    throw new RametError("NotSupported", "spec_overrides.tags are not supported", { hint: "Label it" });
  if (pool !== undefined)
    throw new RametError("NotSupported", "spec_overrides.pool is not supported", {
      hint: "Declare a SandboxSet from the snapshot",
    });
  const name = snapshotName(body.template_id, caller.namespace);
  const sandbox = await sandboxOf(sandbox0, { params: { id: body.sandbox_id }, caller, signal });
  const requestId = requestIdOf(caller.key, request);
  takeSnapshot(service, caller, requestId);
  const at = `${caller.namespace}/${name.name}`;
  const isOwn = (): boolean => {
    const found = service.known.snapshot(at);
    return found !== undefined && requestId !== undefined && lockOf(service, found) === requestId;
  };
  if (!isOwn()) {
    if (
      resultOr(() => findSource(service, caller.namespace, name.name), undefined) !== undefined ||
      service.known.snapshot(at) !== undefined
    )
      throw new RametError("AlreadyExists", `The template ${name.name} exists`, { hint: "Choose another template_id" });
    await createSnapshot(service, sandbox, {
      isNew: true,
      owner: caller.key,
      name,
      allowsPaused: true,
      ...(sandbox.spec.paused !== true && { contents: ["filesystem"] as ["filesystem"] }),
      ...defined({ description, title, requestId }),
      timeoutMilliseconds,
      signal,
    }).catch((error: unknown) => {
      // A repeat of the request was faster.
      if (!isOwn()) throw error;
    });
  }
  const created = service.known.snapshot(at);
  if (created === undefined) throw new RametError("Conflict", `The template ${name.name} was deleted`);
  return success(snapshotTemplate(service, created));
}

/** The request that has created a named snapshot from a sandbox. */
function lockOf(service: Sandbox0["service"], snapshot: NamedSnapshot): string | undefined {
  return currentCheckpoint(service, snapshot)?.metadata.annotations?.[annotations.lock];
}

/** The Checkpoint from which the current version was made. */
function currentCheckpoint({ known }: Sandbox0["service"], { metadata, spec }: NamedSnapshot) {
  return known.checkpointById(metadata.namespace, spec.from.checkpoint?.id ?? "");
}

function snapshotTemplate(service: Sandbox0["service"], snapshot: NamedSnapshot): z.infer<typeof Template> {
  const { name, namespace, creationTimestamp } = snapshot.metadata;
  const { status } = snapshot;
  const current = status?.versions?.find(({ version }) => version === status.version);
  const checkpoint = current && service.known.checkpointById(namespace, current.checkpointId);
  const kept = checkpoint && keptSpec(checkpoint, service.known);
  const noted = currentCheckpoint(service, snapshot)?.metadata.annotations ?? {};
  return {
    template_id: name,
    scope: "team",
    team_id: namespace,
    spec: {
      description: noted[annotations.description] ?? `NamedSnapshot of the namespace ${namespace}`,
      ...defined({ displayName: noted[annotations.displayName] }),
      mainContainer: containerView({ spec: kept ?? {} }),
    },
    status: {
      idleCount: 0,
      activeCount: 0,
      creation: { state: current === undefined ? "creating" : "ready", stage: "publishing" },
    },
    created_at: creationTimestamp,
    updated_at: current?.createdAt ?? creationTimestamp,
  };
}

function templateView(template: SandboxTemplate | SandboxSet): z.infer<typeof Template> {
  const { metadata, kind } = template;
  const { namespace, creationTimestamp } = metadata;
  const idleCount = template.kind === "SandboxSet" ? (template.status?.availableReplicas ?? 0) : 0;
  return {
    template_id: templateName(template),
    scope: "team",
    team_id: namespace,
    spec: {
      description: metadata.annotations?.[annotations.description] ?? `${kind} of the namespace ${namespace}`,
      mainContainer: containerView(template),
    },
    status: { idleCount, activeCount: 0 },
    created_at: creationTimestamp,
    updated_at: creationTimestamp,
  };
}

/** Empty for a set that names a template, which has it. */
function containerView({ spec }: Pick<SandboxTemplate, "spec"> | Pick<SandboxSet, "spec">): {
  image: string;
  resources: { memory: string };
} {
  const main = PodTemplateSpec.safeParse(spec.template).data?.spec.containers[0];
  const { limits = {}, requests = {} } = main?.resources ?? {};
  const memory = String(limits["memory"] ?? requests["memory"] ?? "0");
  return { image: main?.image ?? "", resources: { memory } };
}
