import * as z from "zod";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { defaultTag, tagsOf } from "../../../api/snapshot/snapshot-tags.ts";
import { objectNameOf } from "../../../api/names/client-names.ts";
import { RametError } from "../../../base/errors.ts";
import { settled } from "../../service/template-build-state.ts";
import { currentSource } from "../../service/source.ts";
import { changeTags, readTemplate } from "../../service/template-builds.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { AliasInfo, AssignedTags, TagInfo } from "./template-answers.ts";
import { needs } from "../../keys/needs.ts";
import { existingName } from "./snapshot-name.ts";
import { AssignTags, RemoveTags } from "./template-schemas.ts";
import { buildIdOf, tagViews } from "./template-view.ts";

/** The names and tags of templates. */
export const tagRoutes: readonly E2bRoute[] = [
  route({
    method: "GET",
    path: "/templates/aliases/:alias",
    summary: "Finds what sandboxes can be created from by its name.",
    needs: needs.readTemplate,
    answers: { 200: AliasInfo },
    handle: alias,
  }),
  route({
    method: "POST",
    path: "/templates/tags",
    summary: "Gives tags to a version.",
    needs: needs.tagTemplate,
    body: AssignTags,
    answers: { 201: AssignedTags },
    handle: assign,
  }),
  route({
    method: "DELETE",
    path: "/templates/tags",
    summary: "Removes tags. The versions stay until the named snapshot no longer keeps them.",
    needs: needs.tagTemplate,
    body: RemoveTags,
    answers: { 204: null },
    handle: remove,
  }),
  route({
    method: "GET",
    path: "/templates/:templateID/tags",
    summary: "Lists the tags of a template.",
    needs: needs.readTemplate,
    answers: { 200: z.array(TagInfo) },
    handle: list,
  }),
];

/** A set and a template can be the source of a sandbox too. */
async function alias({ service }: E2b, { request, reply, caller: { namespace }, signal }: Call): Promise<unknown> {
  const { alias: text } = request.params as { alias: string };
  const [name = ""] = (text.startsWith(`${namespace}/`) ? text.slice(namespace.length + 1) : text).split(":");
  if (text.includes(":")) {
    const named = existingName(text, namespace);
    versionOf(await templateOf(service, { namespace, name: named.name, signal }), named.tag);
  } else if (service.known.snapshot(`${namespace}/${objectNameOf(name)}`) === undefined) {
    await currentSource(service, namespace, text, signal);
  }
  return reply.send({ templateID: name, public: false });
}

async function assign({ service }: E2b, { body, reply, caller, signal }: Call<AssignTags>): Promise<unknown> {
  const { namespace } = caller;
  const { name, tag } = existingName(body.target, namespace);
  const all = [...new Set(body.tags)];
  if (all.includes(defaultTag)) throw new RametError("NotSupported", `The tag ${defaultTag} is the current version`);
  const changed = await changeTags(service, { namespace, name, signal }, (current) => {
    const version = versionOf(current, tag);
    return { ...tagsOf(current), ...Object.fromEntries(all.map((each) => [each, version])) };
  });
  return reply.code(201).send({ tags: all, buildID: buildIdOf(changed, versionOf(changed, all[0] ?? tag)) });
}

async function remove({ service }: E2b, { body, reply, caller, signal }: Call<RemoveTags>): Promise<unknown> {
  const { name: text, tags } = body;
  if (text.includes(":")) throw new RametError("InvalidArgument", "The name must not contain a tag");
  if (tags.includes(defaultTag)) throw new RametError("InvalidArgument", `The tag ${defaultTag} cannot be removed`);
  const { namespace } = caller;
  const { name } = existingName(text, namespace);
  await changeTags(service, { namespace, name, signal }, (current) =>
    Object.fromEntries(Object.entries(tagsOf(current)).filter(([tag]) => !tags.includes(tag))),
  );
  return reply.code(204).send();
}

async function list({ service }: E2b, { request, reply, caller: { namespace }, signal }: Call): Promise<unknown> {
  const { templateID } = request.params as { templateID: string };
  const { name } = existingName(templateID, namespace);
  return reply.send(tagViews(await templateOf(service, { namespace, name, signal })));
}

/** @throws RametError `NotFound` */
async function templateOf(
  service: E2b["service"],
  at: { namespace: string; name: string; signal: AbortSignal },
): Promise<NamedSnapshot> {
  return settled(await readTemplate(service, at), service.clock.now());
}

/** @throws RametError `NotFound` */
function versionOf(snapshot: NamedSnapshot, tag: string): number {
  const version = tag === defaultTag ? snapshot.status?.version : tagsOf(snapshot)[tag];
  if (version !== undefined) return version;
  throw new RametError("NotFound", `The template ${snapshot.metadata.name} has no build with the tag ${tag}`);
}
