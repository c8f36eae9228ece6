import * as z from "zod";
import { type NamedSnapshot, namedSnapshotKind, type SnapshotSource } from "../../../api/kinds/named-snapshot.ts";
import { Recipe } from "../../../api/recipe/recipe.ts";
import { type ClientBuild, clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { clientNameOf } from "../../../api/names/client-names.ts";
import { RametError } from "../../../base/errors.ts";
import { buildState } from "../../service/template-build-state.ts";
import { findBuild, requestBuild, settle, startBuild } from "../../service/template-builds.ts";
import { checkSnapshotLimit } from "../../service/key-limits.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { needs } from "../../keys/needs.ts";
import { existingName, snapshotName } from "./snapshot-name.ts";
import { templateRecipe } from "./template-recipe.ts";
import {
  BuildParameters,
  ListTemplates,
  LogsQuery,
  RequestBuild,
  StartBuild,
  type FromImageRegistry,
} from "./template-schemas.ts";
import { BuildInfo, RequestedTemplate, TemplateInfo, UploadLinkAnswer } from "./template-answers.ts";
import { uploadLink } from "./serve-uploads.ts";
import { buildView, buildIdOf } from "./template-view.ts";
import { pageOf } from "./cursor.ts";
import { rametApiVersion } from "../../../api/schema/kind.ts";
import { resized, sourceNamed, sourceOfImage } from "../../service/template-source.ts";
import { findCondition } from "../../../kube/conditions.ts";
import { sizesOf } from "./sandbox-view.ts";

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

/**
 * What a client builds from.
 * @throws RametError `InvalidArgument`, `NotFound`; `NotSupported` with what to use instead
 */
async function buildSource(
  { service, registrySecrets }: Pick<E2b, "service" | "registrySecrets">,
  { caller: { namespace }, signal, body }: Call<StartBuild>,
  { snapshot, build }: { snapshot: NamedSnapshot; build: ClientBuild },
): Promise<SnapshotSource> {
  const { fromImage, fromTemplate, fromImageRegistry } = body;
  const image = fromImage ?? "";
  const template = fromTemplate ?? "";
  if ((image === "") === (template === ""))
    throw new RametError("InvalidArgument", "The template must have exactly one of fromImage and fromTemplate");
  const login = fromImageRegistry ? loginOf(fromImageRegistry) : undefined;
  const { cpuCount, memoryMB } = build;
  const sizes = { cpuCount, memoryMB };
  // The SDKs' default image, which exists only at E2B.
  const isBase = /^e2bdev\/base(:latest)?$/.test(image);
  if (image !== "" && !isBase) {
    const { name, uid } = snapshot.metadata;
    const owner = { apiVersion: rametApiVersion, kind: namedSnapshotKind.kind, name, uid };
    const secret = login && (await registrySecrets.store({ namespace, image, ...login, owner, signal }));
    const pullSecret = secret === undefined ? undefined : { name: secret, owner };
    return sourceOfImage(service, namespace, { ...sizes, image, pullSecret }, signal);
  }
  if (login !== undefined)
    throw new RametError("InvalidArgument", "Credentials of a registry need the image of a registry in fromImage");
  const source = await sourceNamed(service, namespace, isBase ? "base" : template, signal);
  return isUnsized(sizes) ? source : resized(service, { namespace, source, sizes, signal });
}

/** The SDKs always send sizes. Their defaults mean those of the template. */
function isUnsized({ cpuCount, memoryMB }: Pick<ClientBuild, "cpuCount" | "memoryMB">): boolean {
  return (cpuCount === undefined || cpuCount === 2) && (memoryMB === undefined || memoryMB === 1024);
}

function loginOf({ type, username, password }: FromImageRegistry): { username: string; password: string } {
  if (type !== "registry") {
    const hint = hints[type];
    throw new RametError("NotSupported", `Credentials of the type ${type} are not supported`, hint ? { hint } : {});
  }
  if (username === undefined || password === undefined)
    throw new RametError("InvalidArgument", "fromImageRegistry has no username or no password");
  return { username, password };
}

/** Keys of a cloud would have to be exchanged for tokens that end after hours, and a sandbox of the template can start later. */
const hints: Partial<Record<string, string>> = {
  aws: "Use fromImage(image, { username: 'AWS', password: <output of aws ecr get-login-password> }), or let the nodes pull with their role: fromImage(image)",
  gcp: "Use fromImage(image, { username: '_json_key', password: <the service account's JSON> }), or let the nodes pull with their role: fromImage(image)",
};

/** A template in a list: a named snapshot, of any author. */
function templateView({ service, envdVersion }: Pick<E2b, "service" | "envdVersion">, snapshot: NamedSnapshot) {
  const { metadata, spec, status = {} } = snapshot;
  const { namespace, creationTimestamp } = metadata;
  const name = clientNameOf(metadata.name);
  const { latestVersion = 0, versions = [] } = status;
  const template = spec.from.template && service.known.template(`${namespace}/${spec.from.template.name}`);
  return {
    templateID: name,
    ...latestBuild(snapshot, service.clock.now()),
    buildCount: latestVersion,
    names: [`${namespace}/${name}`],
    aliases: [name],
    public: false,
    ...sizesOf(template?.spec.template),
    envdVersion,
    createdAt: creationTimestamp,
    updatedAt: versions.at(-1)?.createdAt ?? creationTimestamp,
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
  };
}

function latestBuild(snapshot: NamedSnapshot, now: Date) {
  const build = clientBuildsOf(snapshot).at(-1);
  return build === undefined
    ? { buildID: buildIdOf(snapshot, snapshot.status?.version ?? 0), buildStatus: statusOf(snapshot) }
    : { buildID: build.id, buildStatus: buildState(snapshot, build, now).status };
}

function statusOf({ status }: NamedSnapshot): "building" | "ready" | "error" {
  if (status?.version !== undefined) return "ready";
  return findCondition(status?.conditions, "Building")?.status === "False" ? "error" : "building";
}
