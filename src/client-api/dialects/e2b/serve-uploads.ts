import { Readable } from "node:stream";
import { createHmac } from "node:crypto";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import * as z from "zod";
import { treeLimits } from "../../../api/tree/tree-check.ts";
import type { ApiKeyLimits } from "../../../api/keys/api-key-rules.ts";
import type { Clock } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import { equalSecrets } from "../../../base/authenticated-encryption.ts";
import { FairTurns } from "../../../base/fair-turns.ts";
import { Slots } from "../../../base/slots.ts";
import { within } from "../../../base/within.ts";
import { needs } from "../../keys/needs.ts";
import { endWithKey, untilClosed, whenOver } from "../../routes/admission.ts";
import type { LimitedKey } from "../../routes/client-limits.ts";
import { originOf, serveStreams } from "../../routes/serve-routes.ts";
import type { KeyValue } from "../../../api/keys/api-key-rules.ts";
import { hasTree, treeOfKey, uploadTree } from "../../service/tree-uploads.ts";
import type { Call, E2b } from "./call.ts";
import { checkSnapshotLimit } from "../../service/key-limits.ts";
import type { UploadLinkAnswer } from "./answers.ts";
import { templateOf } from "./template-view.ts";

/**
 * Receives the files of COPY steps. It is not in the table of routes, because the body is a stream and the link is the only
 * credential.
 */
export function serveUploads(server: FastifyInstance, { service, guests, callers }: E2b): void {
  const { clock } = service;
  const linkOf = async (params: unknown) =>
    readUploadLink((params as { link: string }).link, await guests.secret(), clock.now());
  const limitsOf = (link: UploadLink): ApiKeyLimits => {
    const limits = callers.limitsOf(ownerOf(link));
    if (limits === undefined) throw refused("is of an API key that was revoked");
    return limits;
  };
  const places = new Slots(mostUploadsOfTree);
  const turnsOfTree = new FairTurns(Infinity, () => 1);
  const access = async ({ params }: FastifyRequest, reply: FastifyReply): Promise<LimitedKey> => {
    const link = await linkOf(params);
    const limits = limitsOf(link);
    await callers.requireStill(ownerOf(link), needs.build);
    const tree = `${link.namespace}/${link.digest}`;
    const release = places.take(tree);
    if (release === undefined)
      throw new RametError("TooManyRequests", "Other uploads of these files are in progress", { retryable: true });
    whenOver(reply, release);
    endWithKey(callers, reply, ownerOf(link), needs.build);
    await untilTurn(turnsOfTree, tree, reply);
    return { key: link.owner, limits };
  };
  const turns = new FairTurns(mostUploads, () => mostUploadsOfNamespace);
  serveStreams(server, (instance) => {
    instance.put(
      `${uploadPath}/:link`,
      { bodyLimit: treeLimits.bytes, config: { access, isLong: true, isStreamed: true } },
      async (request, reply) => {
        const link = await linkOf(request.params);
        const archive = request.body as Readable | undefined;
        if (archive === undefined) throw new RametError("InvalidArgument", "The upload has no content");
        const upload = (signal: AbortSignal) =>
          uploadTree(service, guests, { ...link, limits: limitsOf(link), archive: atPace(archive, clock), signal });
        const what = "The upload";
        const deadline = { clock, milliseconds: longestUploadMilliseconds, what, signal: untilClosed(reply) };
        await within(deadline, (signal) => turns.run(link.namespace, () => upload(signal), signal));
        return reply.code(200).send();
      },
    );
  });
}

/** Each is a sandbox. */
const mostUploads = 32;
const mostUploadsOfNamespace = 8;
/** Builds that copy the same files upload them at the same time. All but one wait, and then find the tree. */
const mostUploadsOfTree = 16;

/** A client that sends less than this for longer than that keeps others from uploading. */
const leastBytesPerMillisecond = 16;
const longestPauseMilliseconds = 60_000;

/** @throws RametError `Timeout` when it is read, if the client sends too slowly */
export function atPace(archive: Readable, clock: Clock): Readable {
  return Readable.from(paced(archive, clock));
}

async function* paced(archive: Readable, clock: Clock): AsyncGenerator<Buffer> {
  const chunks = archive.iterator() as AsyncIterableIterator<Buffer>;
  let milliseconds = longestPauseMilliseconds;
  for (;;) {
    const since = clock.monotonicMilliseconds();
    const next = await within({ clock, milliseconds, what: "Waiting for more of the upload" }, (signal) => {
      signal.addEventListener("abort", () => archive.destroy(new Error("too slow")), { once: true });
      return chunks.next();
    });
    if (next.done === true) return;
    const gained = next.value.length / leastBytesPerMillisecond;
    const left = milliseconds + gained - (clock.monotonicMilliseconds() - since);
    milliseconds = Math.min(longestPauseMilliseconds, Math.max(1, left));
    yield next.value;
  }
}

/** Resolves when no other upload of a tree is in progress. The turn lasts until the request is over. */
function untilTurn(turns: FairTurns, tree: string, reply: FastifyReply): Promise<void> {
  return new Promise((begin, reject) => {
    const work = (): Promise<void> => {
      begin();
      return new Promise((over) => {
        whenOver(reply, over);
      });
    };
    turns.run(tree, work, untilClosed(reply)).catch(reject);
  });
}

/** Below it are the links. */
export const uploadPath = "/templates/uploads";

/** How long a link is valid, and how long an upload may take: as long as the SDKs wait. */
export const longestUploadMilliseconds = 3_600_000;

/** The rights of a link's bearer: to upload one tree to one namespace, until the link expires. */
const UploadLink = z.strictObject({
  namespace: z.string().min(1),
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  /** The API key whose limits the tree counts for. */
  owner: z.string().min(1),
  /** The digest of the value of that key with which the build was started. The link ends with it. */
  ownerDigest: z.string().min(1),
  /** Milliseconds since 1970. */
  expiresAt: z.number(),
});
type UploadLink = z.infer<typeof UploadLink>;

function ownerOf({ owner, ownerDigest }: UploadLink): KeyValue {
  return { key: owner, digest: ownerDigest };
}

/** Signs a link. Every replica can check it, because they share the secret. */
export function signUploadLink(link: UploadLink, secret: Buffer): string {
  const payload = Buffer.from(JSON.stringify(link)).toString("base64url");
  return `${payload}.${signature(payload, secret)}`;
}

/** @throws RametError `Unauthorized` */
export function readUploadLink(text: string, secret: Buffer, now: Date): UploadLink {
  const [payload = "", given = ""] = text.split(".");
  if (!equalSecrets(given, signature(payload, secret))) throw refused("is not valid");
  const { data: link } = UploadLink.safeParse(JSON.parse(Buffer.from(payload, "base64url").toString()));
  // Another version has signed it.
  if (link === undefined) throw refused("is not valid");
  if (link.expiresAt <= now.getTime()) throw refused("has expired");
  return link;
}

/** The context separates it from the other tokens that are derived from the secret. */
function signature(payload: string, secret: Buffer): string {
  return createHmac("sha256", secret).update(`upload:${payload}`).digest("base64url");
}

function refused(why: string): RametError {
  return new RametError("Unauthorized", `The upload link ${why}`, { hint: "Start the build again" });
}

/** Returns a link for the files of a COPY step, unless the same API key has uploaded them. */
export async function uploadLink(e2b: E2b, call: Call): Promise<z.infer<typeof UploadLinkAnswer>> {
  const { service, guests } = e2b;
  const { namespace, key: owner, digest: ownerDigest } = call.caller;
  await templateOf(e2b, call);
  const { hash } = Parameters.parse(call.params);
  const digest = treeOfKey(owner, hash);
  if (hasTree(service, namespace, digest)) return { present: true };
  checkSnapshotLimit(service, call.caller);
  const expiresAt = service.clock.now().getTime() + longestUploadMilliseconds;
  const signed = signUploadLink({ namespace, digest, owner, ownerDigest, expiresAt }, await guests.secret());
  return { present: false, url: `${originOf(call.request)}${uploadPath}/${signed}` };
}

const Parameters = z.looseObject({ hash: z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex digits") });
