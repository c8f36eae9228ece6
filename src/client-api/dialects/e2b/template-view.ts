import { createHash } from "node:crypto";
import type { SnapshotStep } from "../../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientNameOf } from "../../../api/names/client-names.ts";
import { type ClientBuild, clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { defaultTag, tagsOf } from "../../../api/snapshot/snapshot-reference.ts";
import { defined } from "../../../base/defined.ts";
import { type BuildState, settled } from "../../service/template-build-state.ts";
import { readTemplate } from "../../service/template-builds.ts";
import type { Call, E2b } from "./call.ts";
import { existingName } from "../../service/snapshot-name.ts";
import type { BuildLogEntry } from "./answers.ts";

/** The template of a request, with the outcome of its last build. @throws RametError `NotFound` */
export async function templateOf(
  { service }: E2b,
  { params: { templateID = "" }, caller: { namespace }, signal }: Pick<Call, "params" | "caller" | "signal">,
): Promise<NamedSnapshot> {
  const { name } = existingName(templateID, namespace);
  return settled(await readTemplate(service, { namespace, name, signal }), service.clock.now());
}

/** The names of a template. None is public. */
export function templateNames({ name, namespace }: { name: string; namespace: string }) {
  const templateID = clientNameOf(name);
  return { templateID, names: [`${namespace}/${templateID}`], aliases: [templateID], public: false };
}

/** Returns a build as E2B's clients get it. */
export function buildView(
  snapshot: NamedSnapshot,
  build: ClientBuild,
  state: BuildState,
  { logsOffset, limit }: { logsOffset: number; limit: number },
) {
  const entries = logEntries(snapshot, build);
  const shown = entries.slice(logsOffset, logsOffset + limit);
  return {
    templateID: clientNameOf(snapshot.metadata.name),
    buildID: build.id,
    status: state.status,
    logEntries: shown,
    logs: [],
    ...(state.status === "error" && {
      reason: {
        ...defined({ message: state.error, step: state.step }),
        logEntries: entries.filter(({ step, level }) => step === state.step && level === "error"),
      },
    }),
  };
}

/**
 * The log of a build, from the steps in the status. A client asks for entries after those that it has, so entries are only added at
 * the end: those of a step follow when all steps before it have ended.
 */
export function logEntries({ status }: NamedSnapshot, build: ClientBuild): BuildLogEntry[] {
  const { steps = [], build: current } = status ?? {};
  if (build.startedAt === undefined) return [];
  const entryOf = ({ cached, step }: SnapshotStep, index: number, time: number): BuildLogEntry & { step: string } => {
    const origin = build.origins?.[index] ?? "base";
    const message = `${cached ? "CACHED " : ""}[${origin}] ${step}`;
    return { timestamp: new Date(time).toISOString(), level: "info", message, step: origin };
  };
  if (current?.request !== build.id) {
    const wasKept = build.outcome !== undefined && "version" in build.outcome;
    const startedAt = Date.parse(build.startedAt);
    return wasKept ? steps.map((step, index) => entryOf({ ...step, cached: true }, index, startedAt)) : [];
  }
  const firstPending = steps.findIndex(({ state }) => state === "Pending");
  const begun = firstPending < 0 ? steps : steps.slice(0, firstPending);
  let time = Date.parse(current.startedAt);
  return begun.flatMap((step, index) => {
    const first = entryOf(step, index, time);
    time += step.milliseconds ?? 0;
    return [first, ...outputOf(step, { timestamp: new Date(time).toISOString(), step: first.step })];
  });
}

function outputOf(
  { output = "", error }: SnapshotStep,
  at: Pick<BuildLogEntry, "timestamp" | "step">,
): BuildLogEntry[] {
  const lines = output.split("\n").filter((line) => line !== "");
  const printed = lines.map((message): BuildLogEntry => ({ ...at, level: "info", message }));
  return error === undefined ? printed : [...printed, { ...at, level: "error", message: error }];
}

/** The tags of a template with the builds of their versions, as E2B's clients list them. */
export function tagViews(snapshot: NamedSnapshot) {
  const { version } = snapshot.status ?? {};
  const all = { ...tagsOf(snapshot), ...defined({ [defaultTag]: version }) };
  return Object.entries(all).map(([tag, tagged]) => ({
    tag,
    buildID: buildIdOf(snapshot, tagged),
    createdAt:
      snapshot.status?.versions?.find((each) => each.version === tagged)?.createdAt ??
      snapshot.metadata.creationTimestamp,
  }));
}

/** The id of the build of a version: that of the client's build, else one that follows from the version. */
export function buildIdOf(snapshot: NamedSnapshot, version: number): string {
  const build = clientBuildsOf(snapshot).findLast(
    ({ outcome }) => outcome !== undefined && "version" in outcome && outcome.version === version,
  );
  if (build !== undefined) return build.id;
  const digits = createHash("sha256").update(`${snapshot.metadata.uid}/${version}`).digest("hex");
  return digits.slice(0, 32).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
