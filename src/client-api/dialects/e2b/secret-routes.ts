import * as z from "zod";
import type { ClientSecret } from "../../../api/kinds/client-secret.ts";
import { clientSecretId } from "../../service/client-secrets.ts";
import { SecretInfo } from "./answers.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { pageOf, compare } from "./cursor.ts";
import { needs } from "../../keys/needs.ts";
import { ListSecrets, NewSecret, SecretUpdate } from "./schemas.ts";

/** Secrets that link adds to requests of sandboxes. No answer has a value. */
export const secretRoutes: readonly E2bRoute[] = [
  route({
    method: "GET",
    path: "/secrets",
    summary: "Lists the secrets of the namespace, without their values.",
    needs: needs.listSecrets,
    query: ListSecrets,
    answers: { 200: z.array(SecretInfo) },
    handle: list,
  }),
  route({
    method: "POST",
    path: "/secrets",
    summary: "Stores a secret, sealed for the controllers.",
    needs: needs.createSecret,
    body: NewSecret,
    answers: { 201: SecretInfo },
    handle: async ({ secrets }, { body, caller: { namespace }, reply }) =>
      reply.code(201).send(infoOf(await secrets.create({ namespace, ...body }))),
  }),
  route({
    method: "GET",
    path: "/secrets/:secretID",
    summary: "Describes a secret, by its id or name.",
    needs: needs.readSecret,
    answers: { 200: SecretInfo },
    handle: async ({ secrets }, call) =>
      call.reply.send(infoOf(await secrets.get(call.caller.namespace, secretOf(call)))),
  }),
  route({
    method: "POST",
    path: "/secrets/:secretID",
    summary: "Stores another value of a secret. Sandboxes use it within a minute.",
    needs: needs.changeSecret,
    body: SecretUpdate,
    answers: { 200: SecretInfo },
    handle: async ({ secrets }, call) =>
      call.reply.send(infoOf(await secrets.update(call.caller.namespace, secretOf(call), call.body))),
  }),
  route({
    method: "DELETE",
    path: "/secrets/:secretID",
    summary: "Deletes a secret. Within a minute, no request has its value any more.",
    needs: needs.deleteSecret,
    answers: { 204: null },
    handle: async ({ secrets }, call) => {
      await secrets.delete(call.caller.namespace, secretOf(call));
      return call.reply.code(204).send();
    },
  }),
];

async function list({ secrets }: E2b, { query, caller, reply }: Call<unknown, ListSecrets>): Promise<unknown> {
  const order = "asc";
  const keyOf = (secret: ClientSecret) => ({ time: secret.metadata.creationTimestamp, id: clientSecretId(secret) });
  const sorted = (await secrets.list(caller.namespace)).toSorted((a, b) => compare(keyOf(a), keyOf(b), order));
  const page = pageOf(sorted, keyOf, { limit: query.limit, nextToken: query.nextToken, order });
  if (page.nextToken !== undefined) void reply.header("x-next-token", page.nextToken);
  return reply.send(page.items.map(infoOf));
}

function secretOf({ request }: Call): string {
  const { secretID = "" } = request.params as { secretID?: string };
  return secretID;
}

function infoOf(secret: ClientSecret): SecretInfo {
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
