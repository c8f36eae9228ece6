import * as z from "zod";
import type { SandboxSet } from "../../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../../api/kinds/sandbox-template.ts";
import { annotations } from "../../../api/names/labels.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { needs } from "../../keys/needs.ts";
import { findTemplate, listTemplates, templateName } from "../../service/source.ts";
import { envelope, route, type Sandbox0Route, success } from "./call.ts";

const templates = "/api/v1/templates";

const Template = z
  .object({
    template_id: z.string(),
    scope: z.literal("team"),
    team_id: z.string().describe("The namespace."),
    spec: z.object({
      description: z.string(),
      mainContainer: z.object({ image: z.string(), resources: z.object({ memory: z.string() }) }),
    }),
    status: z.object({ idleCount: z.int(), activeCount: z.int() }).describe("The ready sandboxes of a set."),
    created_at: z.iso.datetime({ offset: true }),
    updated_at: z.iso.datetime({ offset: true }),
  })
  .meta({ id: "Template" });

export const templateRoutes: readonly Sandbox0Route[] = [
  route("GET", templates, {
    summary: "Lists the sets and templates of the namespace, but templates that were kept for checkpoints.",
    needs: needs.listSources,
    answers: { 200: envelope(z.object({ templates: z.array(Template), count: z.int() })) },
    handle: ({ service }, { caller: { namespace } }) => {
      const all = listTemplates(service, namespace).map(templateView);
      return success({ templates: all, count: all.length });
    },
  }),
  route("GET", `${templates}/:template`, {
    summary: "Describes a set or a template.",
    needs: needs.readSource,
    answers: { 200: envelope(Template) },
    handle: ({ service }, { params: { template = "" }, caller: { namespace } }) =>
      success(templateView(findTemplate(service, namespace, template))),
  }),
];

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
function containerView({ spec }: SandboxTemplate | SandboxSet): { image: string; resources: { memory: string } } {
  const main = PodTemplateSpec.safeParse(spec.template).data?.spec.containers[0];
  const { limits = {}, requests = {} } = main?.resources ?? {};
  const memory = String(limits["memory"] ?? requests["memory"] ?? "0");
  return { image: main?.image ?? "", resources: { memory } };
}
