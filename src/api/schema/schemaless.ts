import { z } from "zod";

/**
 * What the reference keeps without a schema: the API server stores it as it is and checks nothing, so whoever reads it
 * must parse it and say in a condition what is wrong. `type: object` is there because CEL cannot see a field without a type.
 */
export const SchemalessObject = z
  .record(z.string(), z.unknown())
  .meta({ crd: { type: "object", "x-kubernetes-preserve-unknown-fields": true } });

export const SchemalessList = z.array(z.record(z.string(), z.unknown())).meta({
  crd: {
    type: "array",
    items: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    "x-kubernetes-list-type": "atomic",
  },
});
