import * as z from "zod";
import type { SandboxSet } from "../../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../../api/kinds/sandbox-template.ts";
import { annotations } from "../../../api/names/labels.ts";
import { clusterTemplatePrefix } from "../../../api/names/system-names.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { findSource } from "../../service/source.ts";
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
    handle: ({ service: { informers, known } }, { caller: { namespace } }) => {
      const templates = informers.templates.store.list().filter(({ metadata }) => metadata.namespace === namespace);
      const own = templates.filter(({ metadata }) => (metadata.ownerReferences ?? []).length === 0);
      const all = [...known.setsIn(namespace), ...own].map(templateView);
      return { templates: all.toSorted((a, b) => a.name.localeCompare(b.name)) };
    },
  }),
  route("GET", "/templates/:name", {
    summary: "Describes a set or a template.",
    needs: needs.readSource,
    answers: { 200: Template },
    handle: ({ service }, { params: { name = "" }, caller: { namespace } }) => {
      const source = findSource(service, namespace, name);
      const template = source.kind === "template" ? source.name : "";
      const found = source.kind === "set" ? source.set : service.known.template(`${namespace}/${template}`);
      if (found === undefined) throw new RametError("NotFound", `The template ${name.slice(0, 80)} does not exist`);
      return templateView(found);
    },
  }),
];

function templateView({ metadata, spec, kind }: SandboxTemplate | SandboxSet): z.infer<typeof Template> {
  const image = PodTemplateSpec.safeParse(spec.template).data?.spec.containers[0]?.image;
  return {
    // As clients name the templates of a cluster.
    name: metadata.name.replace(new RegExp(`^${clusterTemplatePrefix}`), ""),
    description:
      metadata.annotations?.[annotations.description] ?? `${kind} of the namespace ${metadata.namespace}`,
    ...defined({ image }),
    resourceVersion: metadata.resourceVersion,
    spec,
  };
}
