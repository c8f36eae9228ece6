import * as z from "zod";
import type { SandboxSet } from "../../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../../api/kinds/sandbox-template.ts";
import { clusterTemplatePrefix } from "../../../api/names/system-names.ts";
import { PodTemplateSpec } from "../../../api/schema/pod-template.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { findSource } from "../../service/source.ts";
import { type AgentTierRoute, route } from "./call.ts";
import { group } from "../../../api/schema/kind.ts";
import type { Need } from "../../keys/callers.ts";

const onTemplates = (verb: string): Need[] => [
  { group, resource: "sandboxtemplates", verb },
  { group, resource: "sandboxsets", verb },
];

/** The rights that the operations on templates need. Those on sandboxes need the same as in other dialects. */
const templateNeeds = { list: onTemplates("list"), read: onTemplates("get") };

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
    needs: templateNeeds.list,
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
    needs: templateNeeds.read,
    answers: { 200: Template },
    handle: ({ service }, { params: { name = "" }, caller: { namespace } }) => {
      const source = findSource(service, namespace, name);
      const found =
        source.kind === "set"
          ? source.set
          : service.known.template(`${namespace}/${"name" in source ? source.name : ""}`);
      if (found === undefined) throw new RametError("NotFound", `The template ${name.slice(0, 80)} does not exist`);
      return templateView(found);
    },
  }),
];

function templateView({ metadata, spec, kind }: SandboxTemplate | SandboxSet): z.infer<typeof Template> {
  const image = PodTemplateSpec.safeParse(spec.template).data?.spec.containers[0]?.image;
  return {
    // As clients name the templates of a cluster.
    name: metadata.name.startsWith(clusterTemplatePrefix)
      ? metadata.name.slice(clusterTemplatePrefix.length)
      : metadata.name,
    description:
      metadata.annotations?.["kubernetes.io/description"] ?? `${kind} of the namespace ${metadata.namespace}`,
    ...defined({ image }),
    resourceVersion: metadata.resourceVersion,
    spec,
  };
}
