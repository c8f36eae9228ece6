import type * as z from "zod";
import { type NamedSnapshot, namedSnapshotKind, type SnapshotSource } from "../../../api/kinds/named-snapshot.ts";
import { Recipe } from "../../../api/recipe/recipe.ts";
import { rametApiVersion } from "../../../api/schema/kind.ts";
import type { ClientBuild } from "../../../api/snapshot/client-builds.ts";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { checkSnapshotLimit } from "../../service/key-limits.ts";
import { registryLogin, resized, type Sizes, sourceNamed, sourceOfImage } from "../../service/template-source.ts";
import { buildState } from "../../service/template-build-state.ts";
import { withTreesOf } from "../../service/tree-uploads.ts";
import { findBuild, requestBuild, settle, startBuild } from "../../service/template-builds.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { uploadLink } from "./serve-uploads.ts";
import { existingName, snapshotName } from "../../service/snapshot-name.ts";
import { BuildInfo, BuildLogs, RequestedTemplate, UploadLinkAnswer } from "./answers.ts";
import { templateRecipe } from "./template-recipe.ts";
import { type FromImageRegistry, LogsQuery, ReadBuildLogs, RequestBuild, StartBuild } from "./schemas.ts";
import { buildView, logEntries, templateNames } from "./template-view.ts";

const ofTemplate = "/templates/:templateID";

/** The template builder: a template is a named snapshot, and its steps are a recipe. */
export const templateRoutes: readonly E2bRoute[] = [
  route("POST", "/v3/templates", {
    summary: "Notes a build that the client is about to start.",
    needs: needs.build,
    body: RequestBuild,
    answers: { 202: RequestedTemplate },
    handle: async ({ service }, { body, caller, signal }) => {
      const { name: given, alias = given, cpuCount, memoryMB, minFreeDiskMb } = body;
      if (alias === undefined) throw new RametError("InvalidArgument", "The template has no name");
      if (typeof minFreeDiskMb === "number" && minFreeDiskMb > 0)
        throw new RametError("NotSupported", "minFreeDiskMb is not supported");
      const { namespace, key: owner } = caller;
      checkSnapshotLimit(service, caller);
      const { name, tag } = snapshotName(alias, namespace);
      const tags = [...new Set([tag, ...(body.tags ?? [])])];
      const sizes = { cpuCount: cpuCount ?? undefined, memoryMB: memoryMB ?? undefined };
      const buildID = await requestBuild(service, { namespace, name, owner, tags, ...sizes, signal });
      return { ...templateNames({ namespace, name }), buildID, tags };
    },
  }),
  route("GET", `${ofTemplate}/files/:hash`, {
    summary: "Returns a link for the files of a COPY step, unless they are stored already.",
    needs: needs.build,
    answers: { 201: UploadLinkAnswer },
    handle: uploadLink,
  }),
  route("POST", `/v2${ofTemplate}/builds/:buildID`, {
    summary: "Starts a build, in place of one of the template that is still in progress.",
    needs: needs.build,
    body: StartBuild,
    answers: { 202: null },
    handle: async (e2b, call) => {
      const found = await buildOf(e2b, call);
      const { id } = found.build;
      const { namespace, name } = found.snapshot.metadata;
      const { recipe, origins } = templateRecipe(call.body, id);
      const source = await buildSource(e2b, call, found);
      // What the API server would reject is the client's mistake.
      const own = withTreesOf(call.caller.key, Recipe.parse(recipe));
      await startBuild(e2b.service, { namespace, name, id, ...source, recipe: own, origins, signal: call.signal });
    },
  }),
  route("GET", `${ofTemplate}/builds/:buildID/status`, {
    summary: "Reports the state of a build, and its log from an entry on.",
    needs: needs.readTemplate,
    query: LogsQuery,
    answers: { 200: BuildInfo },
    handle: async (e2b, call) => {
      const { snapshot, build } = await buildOf(e2b, call);
      await settle(e2b.service, snapshot, call.signal);
      return buildView(snapshot, build, buildState(snapshot, build, e2b.service.clock.now()), call.query);
    },
  }),
  route("GET", `${ofTemplate}/builds/:buildID/logs`, {
    summary: "Returns the log of a build, from a time on or before it.",
    needs: needs.readTemplate,
    query: ReadBuildLogs,
    answers: { 200: BuildLogs },
    handle: async (e2b, call) => {
      const { snapshot, build } = await buildOf(e2b, call);
      const { cursor, limit, direction, level } = call.query;
      const isForward = direction === "forward";
      const matching = logEntries(snapshot, build).filter((entry) => {
        const time = Date.parse(entry.timestamp);
        const isInTime = cursor === undefined || (isForward ? time >= cursor : time <= cursor);
        return isInTime && severities.indexOf(entry.level) >= severities.indexOf(level);
      });
      return { logs: (isForward ? matching : matching.toReversed()).slice(0, limit) };
    },
  }),
];

const severities = ["debug", "info", "warn", "error"];

function buildOf(
  { service }: E2b,
  { params: { templateID = "", buildID = "" }, caller: { namespace }, signal }: Omit<Call, "body" | "query">,
): Promise<{ snapshot: NamedSnapshot; build: ClientBuild }> {
  const { name } = existingName(templateID, namespace);
  return findBuild(service, { namespace, name, id: buildID, signal });
}

/**
 * The source of a client's build.
 * @throws RametError `InvalidArgument`, `NotFound`; `NotSupported` with what to use instead
 */
async function buildSource(
  e2b: E2b,
  { caller: { namespace }, signal, body }: Call<typeof StartBuild>,
  { snapshot, build }: { snapshot: NamedSnapshot; build: ClientBuild },
): Promise<Source> {
  const { service } = e2b;
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
  if (image !== "" && !isBase) return imageSource(e2b, snapshot, { ...sizes, image, login, signal });
  if (login !== undefined)
    throw new RametError("InvalidArgument", "Credentials of a registry need the image of a registry in fromImage");
  const source = await sourceNamed(service, namespace, isBase ? "base" : template, signal);
  return { from: isUnsized(sizes) ? source : await resized(service, { namespace, signal }, source, sizes) };
}

interface Source {
  from: SnapshotSource;
  /** The login of the image's registry, sealed for the controllers. */
  registryLogin?: string | undefined;
}

async function imageSource(
  { service, guests, secrets }: E2b,
  { metadata: { namespace, name, uid } }: NamedSnapshot,
  { login, signal, ...source }: Sizes & { image: string; login?: Login | undefined; signal: AbortSignal },
): Promise<Source> {
  const owner = { apiVersion: rametApiVersion, kind: namedSnapshotKind.kind, name, uid };
  const named = login && registryLogin(await guests.secret(), owner, { image: source.image, ...login });
  const pullSecret = named && { name: named.secretName, owner };
  const from = await sourceOfImage(service, namespace, { ...source, pullSecret }, signal);
  return { from, registryLogin: named && (await secrets.sealLogin({ namespace, uid }, named)) };
}

/** The SDKs always send sizes. Their defaults mean those of the template. */
function isUnsized({ cpuCount, memoryMB }: Pick<ClientBuild, "cpuCount" | "memoryMB">): boolean {
  return (cpuCount === undefined || cpuCount === 2) && (memoryMB === undefined || memoryMB === 1024);
}

interface Login {
  username: string;
  password: string;
}

function loginOf({ type, username, password }: z.infer<typeof FromImageRegistry>): Login {
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
