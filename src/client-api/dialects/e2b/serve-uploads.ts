import type { FastifyInstance } from "fastify";
import type { Readable } from "node:stream";
import { treeLimits } from "../../../api/tree/tree-check.ts";
import { RametError } from "../../../base/errors.ts";
import { FairTurns } from "../../../base/fair-turns.ts";
import { within } from "../../../base/within.ts";
import { untilClosed } from "../../routes/serve-routes.ts";
import { uploadTree } from "../../service/tree-uploads.ts";
import type { E2bOptions } from "./call.ts";
import { longestUploadMilliseconds, readUploadLink, uploadPath } from "./upload-link.ts";

/**
 * Receives the files of COPY steps. It is not in the table of routes, because the body is a stream and the link is the only
 * credential.
 */
export function serveUploads(
  server: FastifyInstance,
  { service, guestSecret, guestOf }: Pick<E2bOptions, "service" | "guestSecret" | "guestOf">,
): void {
  const { clock } = service;
  const turns = new FairTurns(mostUploads, () => mostUploadsOfNamespace);
  void server.register((instance, _options, done) => {
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser("*", (_request, body, parsed) => {
      parsed(null, body);
    });
    instance.put<{ Params: { link: string } }>(
      `${uploadPath}/:link`,
      { bodyLimit: treeLimits.bytes, config: { isUpload: true } },
      async (request, reply) => {
        const link = readUploadLink(request.params.link, await guestSecret(), clock.now());
        const archive = request.body as Readable | undefined;
        if (archive === undefined) throw new RametError("InvalidArgument", "The upload has no content");
        const upload = (signal: AbortSignal) => uploadTree(service, guestOf, { ...link, archive, signal });
        const what = "The upload";
        const deadline = { clock, milliseconds: longestUploadMilliseconds, what, signal: untilClosed(reply) };
        await within(deadline, (signal) => turns.run(link.namespace, () => upload(signal), signal));
        return reply.code(200).send();
      },
    );
    done();
  });
}

/** Each is a sandbox. */
const mostUploads = 32;
const mostUploadsOfNamespace = 8;
