import { createHash } from "node:crypto";
import type { SnapshotStep } from "../../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { type ClientBuild, clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { defaultTag, tagsOf } from "../../../api/snapshot/snapshot-tags.ts";
import type { LogEntry } from "./template-answers.ts";
import type { BuildState } from "../../service/template-build-state.ts";

/** What E2B's clients get when they ask for a build. */
export function buildView(
  snapshot: NamedSnapshot,
  build: ClientBuild,
  state: BuildState,
  { logsOffset, limit }: { logsOffset: number; limit: number },
) {
  const entries = logEntries(snapshot, build);
  const shown = entries.slice(logsOffset, logsOffset + limit);
  return {
    templateID: snapshot.metadata.name,
    buildID: build.id,
    status: state.status,
    logEntries: shown,
    logs: [],
    ...(state.status === "error" && {
      reason: {
        message: state.error,
        ...(state.step !== undefined && { step: state.step }),
        logEntries: entries.filter(({ step, level }) => step === state.step && level === "error"),
      },
    }),
  };
}

/**
 * The log of a build, from the steps in the status. A client asks for entries after those that it has, so entries are only added at
 * the end: those of a step follow when all steps before it have ended.
 */
export function logEntries({ status }: NamedSnapshot, build: ClientBuild): LogEntry[] {
  const { steps = [], build: current } = status ?? {};
  if (build.startedAt === undefined) return [];
  const isOwn = current?.request === build.id;
  // A kept version was made current, and nothing was built.
  if (!isOwn && (build.outcome === undefined || "error" in build.outcome)) return [];
  const entries: LogEntry[] = [];
  let time = Date.parse(isOwn ? current.startedAt : build.startedAt);
  for (const [index, step] of steps.entries()) {
    const origin = build.origins?.[index] ?? "base";
    const at = { timestamp: new Date(time).toISOString(), step: origin };
    if (step.state === "Pending") break;
    entries.push({
      ...at,
      level: "info",
      message: `${step.cached || !isOwn ? "CACHED " : ""}[${origin}] ${step.step}`,
    });
    if (step.state === "Running") break;
    if (!isOwn) continue;
    time += step.milliseconds ?? 0;
    entries.push(...outputOf(step, { timestamp: new Date(time).toISOString(), step: origin }));
  }
  return entries;
}

function outputOf({ output = "", error }: SnapshotStep, at: Pick<LogEntry, "timestamp" | "step">): LogEntry[] {
  const lines = output.split("\n").filter((line) => line !== "");
  const printed = lines.map((message): LogEntry => ({ ...at, level: "info", message }));
  return error === undefined ? printed : [...printed, { ...at, level: "error", message: error }];
}

/** The tags of a template with the builds of their versions, as E2B's clients list them. */
export function tagViews(snapshot: NamedSnapshot) {
  const { version } = snapshot.status ?? {};
  const all = { ...tagsOf(snapshot), ...(version !== undefined && { [defaultTag]: version }) };
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
