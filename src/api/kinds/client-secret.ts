import { createHash } from "node:crypto";
import * as z from "zod";
import { defineKind, rametGroup } from "../schema/kind.ts";
import { Time } from "../schema/metadata.ts";

export const ClientSecretSpec = z.object({
  name: z.string().min(1).max(128).describe("The name that clients use, in lower case."),
  sealedValue: z.string().min(1).max(65_536).describe("The value, encrypted for the controllers and this namespace."),
  version: z.int().min(1).max(1_000_000_000).describe("How often a value was stored."),
  updatedAt: Time.describe("When this value was stored."),
  metadata: z.record(z.string(), z.string()).optional().describe("What the client has stored with the secret."),
});
export type ClientSecretSpec = z.infer<typeof ClientSecretSpec>;

/** Unlike a Secret, nobody but the controllers can read the value, so the client API needs no right on Secrets. */
export const clientSecretKind = defineKind({
  group: rametGroup,
  kind: "ClientSecret",
  plural: "clientsecrets",
  singular: "clientsecret",
  shortNames: ["csec"],
  description: "A secret of a client of the client API, which link adds to requests of sandboxes.",
  spec: ClientSecretSpec,
  columns: [
    { name: "Client's name", type: "string", jsonPath: ".spec.name" },
    { name: "Version", type: "integer", jsonPath: ".spec.version" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export const ClientSecret = clientSecretKind.object;
export type ClientSecret = z.infer<typeof ClientSecret>;

/** The name of the object: clients use characters that names of objects cannot have. */
export function clientSecretName(name: string): string {
  return `secret-${createHash("sha256").update(name.toLowerCase()).digest("hex").slice(0, 32)}`;
}
