import { clientNameOf } from "../../../api/names/client-names.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { findBuild, readTemplate } from "../../service/template-builds.ts";
import { type Call, type E2b, type E2bRoute, route } from "./call.ts";
import { pageOf } from "./cursor.ts";
import { needs } from "../../keys/needs.ts";
import { existingName } from "./snapshot-name.ts";
import { BuildLogs, TemplateWithBuilds, UpdatedTemplate, type TemplateBuild } from "./template-answers.ts";
import {
  BuildParameters,
  ListTemplates,
  ReadBuildLogs,
  TemplateParameters,
  UpdateTemplate,
} from "./template-schemas.ts";
import { logEntries, buildIdOf } from "./template-view.ts";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { buildState, settled } from "../../service/template-build-state.ts";
import { sizesOf } from "./sandbox-view.ts";

const ofTemplate = "/templates/:templateID";

/** The routes with which clients read a template and its builds. */
export const templateBuildRoutes: readonly E2bRoute[] = [
  route({
    method: "GET",
    path: ofTemplate,
    summary: "Describes a named snapshot, with its builds page by page. The header X-Next-Token continues the list.",
    needs: needs.readTemplate,
    query: ListTemplates,
    answers: { 200: TemplateWithBuilds },
    handle: get,
  }),
  ...([ofTemplate, `/v2${ofTemplate}`] as const).map((path) =>
    route({
      method: "PATCH",
      path,
      summary: "Confirms that a template is not public. No template can be.",
      needs: needs.tagTemplate,
      body: UpdateTemplate,
      answers: { 200: UpdatedTemplate },
      handle: update,
    }),
  ),
  route({
    method: "GET",
    path: `${ofTemplate}/builds/:buildID/logs`,
    summary: "Returns the log of a build, from a time on or before it.",
    needs: needs.readTemplate,
    query: ReadBuildLogs,
    answers: { 200: BuildLogs },
    handle: logs,
  }),
];

async function get(e2b: E2b, call: Call<unknown, ListTemplates>): Promise<unknown> {
  const { query, caller, reply, signal } = call;
  const { name } = existingName(TemplateParameters.parse(call.request.params).templateID, caller.namespace);
  const snapshot = await readTemplate(e2b.service, { namespace: caller.namespace, name, signal });
  const builds = templateBuilds(e2b, snapshot);
  const keyOf = ({ createdAt, buildID }: (typeof builds)[number]) => ({ time: createdAt, id: buildID });
  const page = pageOf(builds, keyOf, { ...query, order: "desc" });
  if (page.nextToken !== undefined) void reply.header("x-next-token", page.nextToken);
  const { namespace, creationTimestamp } = snapshot.metadata;
  const shown = clientNameOf(name);
  return reply.send({
    templateID: shown,
    public: false,
    aliases: [shown],
    names: [`${namespace}/${shown}`],
    createdAt: creationTimestamp,
    updatedAt: builds[0]?.updatedAt ?? creationTimestamp,
    lastSpawnedAt: null,
    spawnCount: 0,
    builds: page.items,
  });
}

async function update({ service }: E2b, call: Call<UpdateTemplate>): Promise<unknown> {
  const { caller, signal } = call;
  const { name } = existingName(TemplateParameters.parse(call.request.params).templateID, caller.namespace);
  await readTemplate(service, { namespace: caller.namespace, name, signal });
  if (call.body.public === true) {
    throw new RametError("NotSupported", "Public templates are not supported: a template belongs to its namespace", {
      hint: "Declare the template in each namespace that needs it",
    });
  }
  return call.reply.send({ names: [`${caller.namespace}/${clientNameOf(name)}`] });
}

async function logs({ service }: E2b, call: Call<unknown, ReadBuildLogs>): Promise<unknown> {
  const { templateID, buildID } = BuildParameters.parse(call.request.params);
  const { namespace } = call.caller;
  const { name } = existingName(templateID, namespace);
  const { snapshot, build } = await findBuild(service, { namespace, name, id: buildID, signal: call.signal });
  const { cursor, limit, direction, level } = call.query;
  const isForward = direction === "forward";
  const matching = logEntries(snapshot, build).filter((entry) => {
    const time = Date.parse(entry.timestamp);
    const isInTime = cursor === undefined || (isForward ? time >= cursor : time <= cursor);
    return isInTime && severities.indexOf(entry.level) >= severities.indexOf(level);
  });
  return call.reply.send({ logs: (isForward ? matching : matching.toReversed()).slice(0, limit) });
}

const severities = ["debug", "info", "warn", "error"];

/** The builds of a template, newest first: those that clients have requested, and those of the other versions. */
function templateBuilds(
  { service, envdVersion }: Pick<E2b, "service" | "envdVersion">,
  given: NamedSnapshot,
): TemplateBuild[] {
  const now = service.clock.now();
  const snapshot = settled(given, now);
  const { metadata, spec, status } = snapshot;
  const template = spec.from.template && service.known.template(`${metadata.namespace}/${spec.from.template.name}`);
  const sizes = sizesOf(template?.spec.template);
  const createdAt = new Map(status?.versions?.map((version) => [version.version, version.createdAt]));
  const requested = clientBuildsOf(snapshot).map((build): TemplateBuild => {
    const state = buildState(snapshot, build, now);
    const finishedAt = state.status === "ready" ? createdAt.get(state.version) : undefined;
    return {
      buildID: build.id,
      status: state.status,
      createdAt: build.requestedAt,
      updatedAt: finishedAt ?? build.startedAt ?? build.requestedAt,
      ...defined({ finishedAt }),
      ...sizes,
      cpuCount: build.cpuCount ?? sizes.cpuCount,
      memoryMB: build.memoryMB ?? sizes.memoryMB,
      envdVersion,
    };
  });
  const known = new Set(requested.map(({ buildID }) => buildID));
  const others = [...createdAt]
    .map(([version, time]): TemplateBuild => {
      const buildID = buildIdOf(snapshot, version);
      return { buildID, status: "ready", createdAt: time, updatedAt: time, finishedAt: time, ...sizes, envdVersion };
    })
    .filter(({ buildID }) => !known.has(buildID));
  return [...requested, ...others].toSorted((a, b) => b.createdAt.localeCompare(a.createdAt));
}
