import * as z from "zod";
import { type CustomResourceDefinition, crdMark, renderCrdNamed } from "../../api/kinds/crd.ts";
import { covers } from "../apply.ts";
import { ObjectMeta } from "../object.ts";

/** What is read of a CRD in the API server. */
export const InstalledCrd = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    versions: z.array(
      z.looseObject({
        name: z.string(),
        served: z.boolean(),
        schema: z.looseObject({ openAPIV3Schema: z.looseObject({ description: z.string().optional() }) }).optional(),
      }),
    ),
  }),
});
export type InstalledCrd = z.infer<typeof InstalledCrd>;

/**
 * Who made a CRD. `ramet`: Ramet may change it. `compatible`: it is another project's, but has every field that this version needs,
 * so it is only read. `other`: Ramet's controllers cannot work with it.
 */
export type CrdOrigin = "ramet" | "compatible" | "other";

export function crdOrigin(crd: InstalledCrd): CrdOrigin {
  if (isMarked(crd)) return "ramet";
  const rendered = renderCrdNamed(crd.metadata.name);
  if (rendered === undefined || isOfEarlierRamet(crd, rendered)) return "ramet";
  return covers(crd, { spec: rendered.spec }) ? "compatible" : "other";
}

function isMarked({ metadata }: InstalledCrd): boolean {
  return metadata.annotations?.[crdMark] !== undefined;
}

/** Versions before the mark. Their schemas have the descriptions of Ramet, and no annotation of a generator. */
function isOfEarlierRamet({ metadata, spec }: InstalledCrd, rendered: CustomResourceDefinition): boolean {
  if (metadata.annotations?.["controller-gen.kubebuilder.io/version"] !== undefined) return false;
  const ours = rendered.spec.versions[0]?.schema.openAPIV3Schema["description"];
  return spec.versions.some(({ schema }) => schema?.openAPIV3Schema.description === ours);
}
