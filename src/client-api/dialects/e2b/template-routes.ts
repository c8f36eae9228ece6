import * as z from "zod";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { Recipe } from "../../../api/recipe/recipe.ts";
import type { ClientBuild } from "../../../api/snapshot/client-builds.ts";
import { clientNameOf } from "../../../api/names/client-names.ts";
import { RametError } from "../../../base/errors.ts";
import { buildState } from "../../service/template-build-state.ts";
import { findBuild, requestBuild, settle, startBuild } from "../../service/template-builds.ts";
import { checkSnapshotLimit } from "../../service/key-limits.ts";
import { buildSource } from "./build-source.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { needs } from "../../keys/needs.ts";
import { existingName, snapshotName } from "./snapshot-name.ts";
import { templateRecipe } from "./template-recipe.ts";
import { BuildParameters, ListTemplates, LogsQuery, RequestBuild, StartBuild } from "./template-schemas.ts";
import { BuildInfo, RequestedTemplate, TemplateInfo, UploadLinkAnswer } from "./template-answers.ts";
import { uploadLink } from "./upload-route.ts";
import { buildView } from "./template-view.ts";
import { pageOf } from "./cursor.ts";
import { templateView } from "./listed-template.ts";

const ofTemplate = "/templates/:templateID";

/** The template builder: a template is a named snapshot, and its steps are a recipe. */
export const templateRoutes: readonly E2bRoute[] = [
  route({
    method: "POST",
    path: "/v3/templates",
    summary: "Notes a build that the client is about to start.",
    needs: needs.build,
    body: RequestBuild,
    answers: { 202: RequestedTemplate },
    handle: request,
  }),
  route({
    method: "GET",
    path: `${ofTemplate}/files/:hash`,
    summary: "Returns a link for the files of a COPY step, unless they are stored already.",
    needs: needs.build,
    answers: { 201: UploadLinkAnswer },
    handle: uploadLink,
  }),
  route({
    method: "POST",
    path: `/v2${ofTemplate}/builds/:buildID`,
    summary: "Starts a build, in place of one of the template that is still in progress.",
    needs: needs.build,
    body: StartBuild,
    answers: { 202: null },
    handle: start,
  }),
  route({
    method: "GET",
    path: `${ofTemplate}/builds/:buildID/status`,
    summary: "Reports the state of a build, and its log from an entry on.",
    needs: needs.readTemplate,
    query: LogsQuery,
    answers: { 200: BuildInfo },
    handle: status,
  }),
  route({
    method: "GET",
    path: "/v2/templates",
    summary: "Lists the named snapshots page by page. The header X-Next-Token continues the list.",
    needs: needs.listTemplates,
    query: ListTemplates,
    answers: { 200: z.array(TemplateInfo) },
    handle: list,
  }),
  route({
    method: "GET",
    path: "/templates",
    summary: "Lists all named snapshots.",
    needs: needs.listTemplates,
    answers: { 200: z.array(TemplateInfo) },
    handle: async (e2b, { caller, reply }) =>
      reply.send(templatesOf(e2b, caller.namespace).map((snapshot) => templateView(e2b, snapshot))),
  }),
];

async function request({ service }: E2b, call: Call<RequestBuild>): Promise<unknown> {
  const { name: given, alias = given, tags, cpuCount, memoryMB, minFreeDiskMb } = call.body;
  if (alias === undefined) throw new RametError("InvalidArgument", "The template has no name");
  if (typeof minFreeDiskMb === "number" && minFreeDiskMb > 0)
    throw new RametError("NotSupported", "minFreeDiskMb is not supported");
  const { namespace, key: owner } = call.caller;
  checkSnapshotLimit(service, call.caller);
  const { name, tag } = snapshotName(alias, namespace);
  const all = [...new Set([tag, ...(tags ?? [])])];
  const buildID = await requestBuild(service, {
    namespace,
    name,
    owner,
    tags: all,
    cpuCount: cpuCount ?? undefined,
    memoryMB: memoryMB ?? undefined,
    signal: call.signal,
  });
  const shown = clientNameOf(name);
  const names = [`${namespace}/${shown}`];
  return call.reply.code(202).send({ templateID: shown, buildID, names, aliases: [shown], tags: all, public: false });
}

async function start(e2b: E2b, call: Call<StartBuild>): Promise<unknown> {
  const { service } = e2b;
  const found = await buildOf(service, call);
  const { body } = call;
  const { recipe, origins } = templateRecipe(body, found.build.id);
  const from = await buildSource(e2b, call, found);
  await startBuild(service, {
    namespace: call.caller.namespace,
    name: found.snapshot.metadata.name,
    id: found.build.id,
    from,
    // What the API server would reject is the client's mistake.
    recipe: Recipe.parse(recipe),
    origins,
    signal: call.signal,
  });
  return call.reply.code(202).send();
}

async function buildOf(service: E2b["service"], call: Call): Promise<{ snapshot: NamedSnapshot; build: ClientBuild }> {
  const { templateID, buildID } = BuildParameters.parse(call.request.params);
  const { namespace } = call.caller;
  const { name } = existingName(templateID, namespace);
  return findBuild(service, { namespace, name, id: buildID, signal: call.signal });
}

async function status({ service }: E2b, call: Call<unknown, LogsQuery>): Promise<unknown> {
  const { snapshot, build } = await buildOf(service, call);
  await settle(service, snapshot, call.signal);
  return call.reply.send(buildView(snapshot, build, buildState(snapshot, build, service.clock.now()), call.query));
}

async function list(e2b: E2b, call: Call<unknown, ListTemplates>): Promise<unknown> {
  const { limit, nextToken } = call.query;
  const keyOf = ({ metadata }: NamedSnapshot) => ({ time: metadata.creationTimestamp, id: metadata.name });
  const page = pageOf(templatesOf(e2b, call.caller.namespace), keyOf, { limit, nextToken, order: "desc" });
  if (page.nextToken !== undefined) void call.reply.header("x-next-token", page.nextToken);
  return call.reply.send(page.items.map((snapshot) => templateView(e2b, snapshot)));
}

/** Newest first. */
function templatesOf({ service }: E2b, namespace: string): NamedSnapshot[] {
  return service.known
    .snapshotsIn(namespace)
    .toSorted(
      ({ metadata: a }, { metadata: b }) =>
        b.creationTimestamp.localeCompare(a.creationTimestamp) || a.name.localeCompare(b.name),
    );
}
