import * as z from "zod";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientNameOf, parseClientName } from "../../../api/names/client-names.ts";
import { defaultTag, tagsOf } from "../../../api/snapshot/snapshot-reference.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { currentSource } from "../../service/source.ts";
import { changeTags } from "../../service/template-builds.ts";
import { type E2bRoute, route } from "./call.ts";
import { existingName } from "../../service/snapshot-name.ts";
import { AliasInfo, AssignedTags, TagAssignments, TagCount, TagExistence, TagGroups, TagInfo } from "./answers.ts";
import { AssignTags, ListTagGroups, RemoveTags, TagExists } from "./schemas.ts";
import { buildIdOf, tagViews, templateOf } from "./template-view.ts";

/** The names and tags of templates. */
export const tagRoutes: readonly E2bRoute[] = [
  route("GET", "/templates/aliases/:alias", {
    summary: "Finds what sandboxes can be created from by its name.",
    needs: needs.readTemplate,
    answers: { 200: AliasInfo },
    handle: async (e2b, { params: { alias = "" }, caller, signal }) => {
      const { namespace } = caller;
      const { name, tag } = parseClientName(alias, namespace);
      if (tag !== undefined) {
        versionOf(await templateOf(e2b, { params: { templateID: alias }, caller, signal }), tag);
      } else if (e2b.service.known.snapshot(`${namespace}/${name}`) === undefined) {
        // A set and a template can be the source of a sandbox too.
        await currentSource(e2b.service, namespace, alias, signal);
      }
      return { templateID: clientNameOf(name), public: false };
    },
  }),
  route("POST", "/templates/tags", {
    summary: "Gives tags to a version.",
    needs: needs.tagTemplate,
    body: AssignTags,
    answers: { 201: AssignedTags },
    handle: async ({ service }, { body, caller: { namespace }, signal }) => {
      const { name, tag } = existingName(body.target, namespace);
      const tags = [...new Set(body.tags)];
      if (tags.includes(defaultTag))
        throw new RametError("NotSupported", `The tag ${defaultTag} is the current version`);
      const changed = await changeTags(service, { namespace, name, signal }, (current) => {
        const version = versionOf(current, tag);
        return { ...tagsOf(current), ...Object.fromEntries(tags.map((each) => [each, version])) };
      });
      return { tags, buildID: buildIdOf(changed, versionOf(changed, tags[0] ?? tag)) };
    },
  }),
  route("DELETE", "/templates/tags", {
    summary: "Removes tags. The versions stay until the named snapshot no longer keeps them.",
    needs: needs.tagTemplate,
    body: RemoveTags,
    answers: { 204: null },
    handle: async ({ service }, { body, caller: { namespace }, signal }) => {
      const { name: text, tags } = body;
      if (text.includes(":")) throw new RametError("InvalidArgument", "The name must not contain a tag");
      if (tags.includes(defaultTag)) throw new RametError("InvalidArgument", `The tag ${defaultTag} cannot be removed`);
      const { name } = existingName(text, namespace);
      await changeTags(service, { namespace, name, signal }, (current) =>
        Object.fromEntries(Object.entries(tagsOf(current)).filter(([tag]) => !tags.includes(tag))),
      );
    },
  }),
  route("GET", "/templates/:templateID/tags", {
    summary: "Lists the tags of a template.",
    needs: needs.readTemplate,
    answers: { 200: z.array(TagInfo) },
    handle: async (e2b, call) => tagViews(await templateOf(e2b, call)),
  }),
  route("GET", "/templates/:templateID/tags/exists", {
    summary: "Reports whether a template has a tag.",
    needs: needs.readTemplate,
    query: TagExists,
    answers: { 200: TagExistence },
    handle: async (e2b, call) => {
      const normalizedTag = call.query.tag.toLowerCase();
      const exists = tagViews(await templateOf(e2b, call)).some(({ tag }) => tag === normalizedTag);
      return { exists, normalizedTag };
    },
  }),
  route("GET", "/templates/:templateID/tags/count", {
    summary: "Counts the tags of a template.",
    needs: needs.readTemplate,
    answers: { 200: TagCount },
    handle: async (e2b, call) => ({ total: tagViews(await templateOf(e2b, call)).length }),
  }),
  route("GET", "/templates/:templateID/tags/groups", {
    summary: "Lists the tags of a template page by page, each with its build.",
    needs: needs.readTemplate,
    query: ListTagGroups,
    answers: { 200: TagGroups },
    handle: async (e2b, call) => {
      const { search, sort, tagsLimit, tagsCursor } = call.query;
      const found = tagViews(await templateOf(e2b, call)).filter(({ tag }) => tag.includes(search.toLowerCase()));
      const [by, order = "asc"] = sort.split("_");
      const sorted = found.toSorted(
        (a, b) =>
          (order === "asc" ? 1 : -1) *
          ((by === "name" ? 0 : a.createdAt.localeCompare(b.createdAt)) || a.tag.localeCompare(b.tag)),
      );
      // A tag that has been removed in the meantime continues at the beginning.
      const first = tagsCursor === undefined ? 0 : sorted.findIndex(({ tag }) => tag === tagsCursor) + 1;
      const page = sorted.slice(first, first + tagsLimit);
      const tags = page.map((view) => ({ tag: view.tag, assignments: [assignmentOf(view)], hasMore: false }));
      return { tags, nextCursor: first + tagsLimit < sorted.length ? (page.at(-1)?.tag ?? null) : null };
    },
  }),
  route("GET", "/templates/:templateID/tags/:tag/assignments", {
    summary: "Returns the build of a tag. Its earlier builds are not kept.",
    needs: needs.readTemplate,
    answers: { 200: TagAssignments },
    handle: async (e2b, call) => {
      const tag = call.params["tag"]?.toLowerCase();
      const found = tagViews(await templateOf(e2b, call)).filter((view) => view.tag === tag);
      return { data: found.map(assignmentOf), nextCursor: null };
    },
  }),
];

function assignmentOf({ buildID, createdAt }: z.infer<typeof TagInfo>) {
  const times = { assignedAt: createdAt, buildCreatedAt: createdAt, buildFinishedAt: createdAt };
  return { assignmentId: buildID, buildId: buildID, ...times };
}

/** @throws RametError `NotFound` */
function versionOf(snapshot: NamedSnapshot, tag: string): number {
  const version = tag === defaultTag ? snapshot.status?.version : tagsOf(snapshot)[tag];
  if (version !== undefined) return version;
  throw new RametError("NotFound", `The template ${snapshot.metadata.name} has no build with the tag ${tag}`);
}
