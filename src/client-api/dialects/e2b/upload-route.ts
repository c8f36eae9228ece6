import type { FastifyRequest } from "fastify";
import * as z from "zod";
import { checkSnapshotLimit } from "../../service/key-limits.ts";
import { hasTree } from "../../service/tree-uploads.ts";
import { readTemplate } from "../../service/template-builds.ts";
import type { Call, E2b } from "./call.ts";
import { existingName } from "./snapshot-name.ts";
import { longestUploadMilliseconds, signUploadLink, uploadPath } from "./upload-link.ts";

/** Returns a link for the files of a COPY step, unless the namespace has them. */
export async function uploadLink(
  { service, guestSecret }: E2b,
  { request, reply, caller, signal }: Call,
): Promise<unknown> {
  const { namespace, key: owner } = caller;
  const { templateID, ...parameters } = request.params as { templateID: string };
  await readTemplate(service, { namespace, name: existingName(templateID, namespace).name, signal });
  const { hash } = Parameters.parse(parameters);
  if (hasTree(service, namespace, hash)) return reply.code(201).send({ present: true });
  checkSnapshotLimit(service, caller);
  const expiresAt = service.clock.now().getTime() + longestUploadMilliseconds;
  const signed = signUploadLink({ namespace, digest: hash, owner, expiresAt }, await guestSecret());
  return reply.code(201).send({ present: false, url: `${originOf(request)}${uploadPath}/${signed}` });
}

const Parameters = z.looseObject({ hash: z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex digits") });

/** The address at which the client has reached the server. Only the client itself uses it. */
function originOf({ headers, protocol, host }: FastifyRequest): string {
  return `${headers["x-forwarded-proto"] === "https" ? "https" : protocol}://${host}`;
}
