import { createHash } from "node:crypto";
import type { SnapshotStep } from "../../../api/kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientNameOf } from "../../../api/names/client-names.ts";
import { type ClientBuild, clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { defaultTag, tagsOf } from "../../../api/snapshot/snapshot-tags.ts";
import { defined } from "../../../base/defined.ts";
import type { LogEntry } from "./template-answers.ts";
import type { BuildState } from "../../service/template-build-state.ts";

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
        message: state.error,
        ...defined({ step: state.step }),
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
  if (current?.request !== build.id)
    return wasKept(build) ? steps.map((step, index) => keptEntry(step, index, build)) : [];
  const begun = steps.slice(0, beginOf(steps, "Pending"));
  let time = Date.parse(current.startedAt);
  return begun.flatMap((step, index) => {
    const first = entryOf(step, { index, time, build });
    time += step.milliseconds ?? 0;
    const { step: origin } = first;
    return [first, ...outputOf(step, { timestamp: new Date(time).toISOString(), ...defined({ step: origin }) })];
  });
}

/** Whether a kept version was made current, and nothing was built. */
function wasKept({ outcome }: ClientBuild): boolean {
  return outcome !== undefined && "version" in outcome;
}

function keptEntry(step: SnapshotStep, index: number, build: ClientBuild): LogEntry {
  return entryOf({ ...step, cached: true }, { index, time: Date.parse(build.startedAt ?? ""), build });
}

function entryOf(
  { cached, step }: SnapshotStep,
  { index, time, build }: { index: number; time: number; build: ClientBuild },
): LogEntry {
  const origin = build.origins?.[index] ?? "base";
  const message = `${cached ? "CACHED " : ""}[${origin}] ${step}`;
  return { timestamp: new Date(time).toISOString(), level: "info", message, step: origin };
}

/** The index of the first step in a state; the number of steps if there is none. */
function beginOf(steps: readonly SnapshotStep[], state: string): number {
  const index = steps.findIndex((step) => step.state === state);
  return index < 0 ? steps.length : index;
}

function outputOf({ output = "", error }: SnapshotStep, at: Pick<LogEntry, "timestamp" | "step">): LogEntry[] {
  const lines = output.split("\n").filter((line) => line !== "");
  const printed = lines.map((message): LogEntry => ({ ...at, level: "info", message }));
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
