import * as z from "zod";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { envdVersion } from "../../../cell/client/guest-wire.ts";
import { defined } from "../../../base/defined.ts";
import { RametError } from "../../../base/errors.ts";
import { findCondition } from "../../../kube/conditions.ts";
import { needs } from "../../keys/needs.ts";
import type { ServiceParts } from "../../service/parts.ts";
import { keptSpec } from "../../service/source.ts";
import { buildState } from "../../service/template-build-state.ts";
import { type E2bRoute, route } from "./call.ts";
import { pageFor, pageOf } from "./cursor.ts";
import { sizesOf } from "./sandbox-view.ts";
import { type TemplateBuild, TemplateInfo, TemplateWithBuilds, UpdatedTemplate } from "./answers.ts";
import { Page, UpdateTemplate } from "./schemas.ts";
import { buildIdOf, templateNames, templateOf } from "./template-view.ts";

const ofTemplate = "/templates/:templateID";

/** The routes with which clients read templates and their builds. */
export const templateBuildRoutes: readonly E2bRoute[] = [
  route("GET", "/v2/templates", {
    summary: "Lists the named snapshots page by page. The header X-Next-Token continues the list.",
    needs: needs.listTemplates,
    query: Page,
    answers: { 200: z.array(TemplateInfo) },
    handle: ({ service }, { caller, query, reply }) =>
      pageFor(reply, service.known.snapshotsIn(caller.namespace), keyOf, { ...query, order: "desc" }).map((snapshot) =>
        templateView(service, snapshot),
      ),
  }),
  route("GET", "/templates", {
    summary: "Lists all named snapshots.",
    needs: needs.listTemplates,
    answers: { 200: z.array(TemplateInfo) },
    handle: ({ service }, { caller }) => {
      const { items } = pageOf(service.known.snapshotsIn(caller.namespace), keyOf, { limit: Infinity, order: "desc" });
      return items.map((snapshot) => templateView(service, snapshot));
    },
  }),
  route("GET", ofTemplate, {
    summary: "Describes a named snapshot, with its builds page by page. The header X-Next-Token continues the list.",
    needs: needs.readTemplate,
    query: Page,
    answers: { 200: TemplateWithBuilds },
    handle: async (e2b, call) => {
      const snapshot = await templateOf(e2b, call);
      const { metadata } = snapshot;
      const { creationTimestamp: createdAt } = metadata;
      const builds = templateBuilds(e2b.service, snapshot);
      const keyOfBuild = (build: TemplateBuild) => ({ time: build.createdAt, id: build.buildID });
      return {
        ...templateNames(metadata),
        createdAt,
        updatedAt: builds[0]?.updatedAt ?? createdAt,
        lastSpawnedAt: null,
        spawnCount: 0,
        builds: pageFor(call.reply, builds, keyOfBuild, { ...call.query, order: "desc" }),
      };
    },
  }),
  ...[ofTemplate, `/v2${ofTemplate}`].map((path) =>
    route("PATCH", path, {
      summary: "Confirms that a template is not public. No template can be.",
      needs: needs.tagTemplate,
      body: UpdateTemplate,
      answers: { 200: UpdatedTemplate },
      handle: async (e2b, call) => {
        const { names } = templateNames((await templateOf(e2b, call)).metadata);
        if (call.body.public !== true) return { names };
        const message = "Public templates are not supported: a template belongs to its namespace";
        throw new RametError("NotSupported", message, {
          hint: "Declare the template in each namespace that needs it",
        });
      },
    }),
  ),
];

function keyOf({ metadata }: NamedSnapshot) {
  return { time: metadata.creationTimestamp, id: metadata.name };
}

/** A template in a list: a named snapshot, of any author. */
function templateView(service: ServiceParts, snapshot: NamedSnapshot): z.infer<typeof TemplateInfo> {
  const { metadata, status = {} } = snapshot;
  const { version, latestVersion = 0, versions = [] } = status;
  return {
    ...templateNames(metadata),
    ...latestBuild(snapshot, service.clock.now()),
    ...sizesOfVersion(service, snapshot, version),
    buildCount: latestVersion,
    createdAt: metadata.creationTimestamp,
    updatedAt: versions.at(-1)?.createdAt ?? metadata.creationTimestamp,
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

/** The sizes of a version. Without a version, those of the template from which the named snapshot is built. */
function sizesOfVersion({ known }: ServiceParts, { metadata, spec, status }: NamedSnapshot, version?: number) {
  const { namespace } = metadata;
  const checkpointId = status?.versions?.find((each) => each.version === version)?.checkpointId ?? "";
  const captured = known.checkpointById(namespace, checkpointId);
  const kept = captured && keptSpec(captured, known);
  const named = () => known.template(`${namespace}/${spec.from.template?.name ?? ""}`)?.spec;
  return { ...sizesOf((kept ?? named())?.template), envdVersion };
}

/** The builds of a template, newest first: those that clients have requested, and those of the other versions. */
function templateBuilds(service: ServiceParts, snapshot: NamedSnapshot): TemplateBuild[] {
  const now = service.clock.now();
  const { status } = snapshot;
  const createdAt = new Map(status?.versions?.map((version) => [version.version, version.createdAt]));
  const requested = clientBuildsOf(snapshot).map((build): TemplateBuild => {
    const state = buildState(snapshot, build, now);
    const sizes = sizesOfVersion(service, snapshot, state.status === "ready" ? state.version : undefined);
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
    };
  });
  const known = new Set(requested.map(({ buildID }) => buildID));
  const others = [...createdAt]
    .map(([version, time]): TemplateBuild => {
      const buildID = buildIdOf(snapshot, version);
      const times = { createdAt: time, updatedAt: time, finishedAt: time };
      return { buildID, status: "ready", ...times, ...sizesOfVersion(service, snapshot, version) };
    })
    .filter(({ buildID }) => !known.has(buildID));
  return [...requested, ...others].toSorted((a, b) => b.createdAt.localeCompare(a.createdAt));
}
