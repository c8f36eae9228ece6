import * as z from "zod";
import type { SandboxSet } from "../../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../../api/kinds/sandbox-template.ts";
import { annotations } from "../../../api/names/labels.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { defined } from "../../../base/defined.ts";
import { needs } from "../../keys/needs.ts";
import { findTemplate, listTemplates, templateName } from "../../service/source.ts";
import { type AgentTierRoute, route } from "./call.ts";

const Template = z
  .object({
    name: z.string(),
    description: z.string(),
    image: z.string().optional(),
    resourceVersion: z.string().optional(),
    spec: z.looseObject({}).describe("The spec of the SandboxTemplate or SandboxSet."),
  })
  .meta({ id: "Template" });

export const templateRoutes: readonly AgentTierRoute[] = [
  route("GET", "/templates", {
    summary: "Lists the sets and templates of the namespace, but templates that were kept for checkpoints.",
    needs: needs.listSources,
    answers: { 200: z.object({ templates: z.array(Template) }) },
    handle: ({ service }, { caller: { namespace } }) => ({
      templates: listTemplates(service, namespace).map(templateView),
    }),
  }),
  route("GET", "/templates/:name", {
    summary: "Describes a set or a template.",
    needs: needs.readSource,
    answers: { 200: Template },
    handle: ({ service }, { params: { name = "" }, caller: { namespace } }) =>
      templateView(findTemplate(service, namespace, name)),
  }),
];

function templateView(template: SandboxTemplate | SandboxSet): z.infer<typeof Template> {
  const { metadata, spec, kind } = template;
  const image = PodTemplateSpec.safeParse(spec.template).data?.spec.containers[0]?.image;
  return {
    name: templateName(template),
    description: metadata.annotations?.[annotations.description] ?? `${kind} of the namespace ${metadata.namespace}`,
    ...defined({ image }),
    resourceVersion: metadata.resourceVersion,
    spec,
  };
}
