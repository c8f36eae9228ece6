import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { buildState, settled } from "../../service/template-build-state.ts";
import type { E2b } from "./call.ts";
import { sizesOf } from "./sandbox-view.ts";
import type { TemplateBuild } from "./template-answers.ts";
import { buildIdOf } from "./template-view.ts";

/** The builds of a template, newest first: those that clients have requested, and those of the other versions. */
export function templateBuilds(
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
      ...(finishedAt !== undefined && { finishedAt }),
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
