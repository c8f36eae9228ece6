import * as z from "zod";
import type { ClientSecret } from "../../../api/kinds/client-secret.ts";
import { needs } from "../../keys/needs.ts";
import { clientSecretId } from "../../service/client-secrets.ts";
import { SecretInfo } from "./answers.ts";
import { type E2bRoute, route } from "./call.ts";
import { pageFor } from "./cursor.ts";
import { Page, NewSecret, SecretUpdate } from "./schemas.ts";

/** Secrets that link adds to requests of sandboxes. No answer has a value. */
export const secretRoutes: readonly E2bRoute[] = [
  route("GET", "/secrets", {
    summary: "Lists the secrets of the namespace, without their values.",
    needs: needs.listSecrets,
    query: Page,
    answers: { 200: z.array(SecretInfo) },
    handle: async ({ secrets }, { query, caller, reply }) => {
      const keyOf = (secret: ClientSecret) => ({ time: secret.metadata.creationTimestamp, id: clientSecretId(secret) });
      return pageFor(reply, await secrets.list(caller.namespace), keyOf, { ...query, order: "asc" }).map(infoOf);
    },
  }),
  route("POST", "/secrets", {
    summary: "Stores a secret, sealed for the controllers.",
    needs: needs.createSecret,
    body: NewSecret,
    answers: { 201: SecretInfo },
    handle: async ({ secrets }, { body, caller: { namespace } }) =>
      infoOf(await secrets.create({ namespace, ...body })),
  }),
  route("GET", "/secrets/:secretID", {
    summary: "Describes a secret, by its id or name.",
    needs: needs.readSecret,
    answers: { 200: SecretInfo },
    handle: async ({ secrets }, { params: { secretID = "" }, caller }) =>
      infoOf(await secrets.get(caller.namespace, secretID)),
  }),
  route("POST", "/secrets/:secretID", {
    summary: "Stores another value of a secret. Sandboxes use it within a minute.",
    needs: needs.changeSecret,
    body: SecretUpdate,
    answers: { 200: SecretInfo },
    handle: async ({ secrets }, { params: { secretID = "" }, caller, body }) =>
      infoOf(await secrets.update(caller.namespace, secretID, body)),
  }),
  route("DELETE", "/secrets/:secretID", {
    summary: "Deletes a secret. Within a minute, no request has its value any more.",
    needs: needs.deleteSecret,
    answers: { 204: null },
    handle: ({ secrets }, { params: { secretID = "" }, caller }) => secrets.delete(caller.namespace, secretID),
  }),
];

function infoOf(secret: ClientSecret): z.infer<typeof SecretInfo> {
  const { metadata, spec } = secret;
  return {
    secretID: clientSecretId(secret),
    name: spec.name,
    currentVersion: spec.version,
    metadata: spec.metadata ?? {},
    createdAt: metadata.creationTimestamp,
    updatedAt: spec.updatedAt,
  };
}
