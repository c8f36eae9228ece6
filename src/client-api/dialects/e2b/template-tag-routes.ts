import * as z from "zod";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { defaultTag, tagsAnnotation, tagsOf } from "../../../api/snapshot/snapshot-tags.ts";
import { objectNameOf } from "../../../api/names/client-names.ts";
import { RametError } from "../../../base/errors.ts";
import { settled } from "../../service/template-build-state.ts";
import { findSource } from "../../service/source.ts";
import { changeTags } from "../../service/template-builds.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { AliasInfo, AssignedTags, TagInfo } from "./template-answers.ts";
import { needs } from "./needs.ts";
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
async function alias({ service }: E2b, call: Call): Promise<unknown> {
  const { alias: text } = call.request.params as { alias: string };
  const { namespace } = call.caller;
  const [name = ""] = (text.startsWith(`${namespace}/`) ? text.slice(namespace.length + 1) : text).split(":");
  const object = objectNameOf(name);
  if (text.includes(":")) versionOf(templateOf(service, namespace, object), existingName(text, namespace).tag);
  else if (service.known.snapshot(`${namespace}/${object}`) === undefined) findSource(service, namespace, text);
  return call.reply.send({ templateID: name, public: false });
}

async function assign({ service }: E2b, call: Call<AssignTags>): Promise<unknown> {
  const { target, tags } = call.body;
  const { namespace } = call.caller;
  const { name, tag } = existingName(target, namespace);
  const all = [...new Set(tags)];
  if (all.includes(defaultTag)) throw new RametError("NotSupported", `The tag ${defaultTag} is the current version`);
  const snapshot = templateOf(service, namespace, name);
  const version = versionOf(snapshot, tag);
  await changeTags(service, snapshot, call.signal, (current) => ({
    ...tagsAnnotation({ ...tagsOf(current), ...Object.fromEntries(all.map((each) => [each, version])) }),
  }));
  return call.reply.code(201).send({ tags: all, buildID: buildIdOf(snapshot, version) });
}

async function remove({ service }: E2b, call: Call<RemoveTags>): Promise<unknown> {
  const { name: text, tags } = call.body;
  if (text.includes(":")) throw new RametError("InvalidArgument", "The name must not contain a tag");
  if (tags.includes(defaultTag)) throw new RametError("InvalidArgument", `The tag ${defaultTag} cannot be removed`);
  const { namespace } = call.caller;
  const snapshot = templateOf(service, namespace, existingName(text, namespace).name);
  await changeTags(service, snapshot, call.signal, (current) => {
    const kept = Object.entries(tagsOf(current)).filter(([tag]) => !tags.includes(tag));
    return tagsAnnotation(Object.fromEntries(kept));
  });
  return call.reply.code(204).send();
}

async function list({ service }: E2b, call: Call): Promise<unknown> {
  const { templateID } = call.request.params as { templateID: string };
  const { namespace } = call.caller;
  return call.reply.send(tagViews(templateOf(service, namespace, existingName(templateID, namespace).name)));
}

/** @throws RametError `NotFound` */
function templateOf({ known, clock }: E2b["service"], namespace: string, name: string): NamedSnapshot {
  const snapshot = known.snapshot(`${namespace}/${name}`);
  if (snapshot !== undefined) return settled(snapshot, clock.now());
  throw new RametError("NotFound", `The template ${name} does not exist`);
}

/** @throws RametError `NotFound` */
function versionOf(snapshot: NamedSnapshot, tag: string): number {
  const version = tag === defaultTag ? snapshot.status?.version : tagsOf(snapshot)[tag];
  if (version !== undefined) return version;
  throw new RametError("NotFound", `The template ${snapshot.metadata.name} has no build with the tag ${tag}`);
}
