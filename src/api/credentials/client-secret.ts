import { createHash } from "node:crypto";
import * as z from "zod";
import { ObjectMeta } from "../schema/metadata.ts";

/** On ConfigMaps that hold a secret of a client, sealed for the controllers. */
export const clientSecretLabels = { "ramet.dev/client-secret": "true" };

/** The name of the ConfigMap of a secret: clients use characters that names of objects cannot have. */
export function clientSecretName(secret: string): string {
  return `ramet-secret-${createHash("sha256").update(secret.toLowerCase()).digest("hex").slice(0, 32)}`;
}

/** A secret that a client of the client API has stored. Nobody but the controllers can read the value. */
export const ClientSecretMap = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({
    name: z.string().min(1),
    value: z.string().min(1),
    version: z.coerce.number().int().min(1),
    updatedAt: z.iso.datetime(),
    /** JSON of the client's metadata. */
    metadata: z.string().default("{}"),
  }),
});
export type ClientSecretMap = z.infer<typeof ClientSecretMap>;
