import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientNameOf } from "../../../api/names/client-names.ts";
import { clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { findCondition } from "../../../kube/conditions.ts";
import { buildState } from "../../service/template-build-state.ts";
import type { E2b } from "./call.ts";
import { sizesOf } from "./sandbox-view.ts";
import { buildIdOf } from "./template-view.ts";

/** A template in a list: a named snapshot, of any author. */
export function templateView({ service, envdVersion }: Pick<E2b, "service" | "envdVersion">, snapshot: NamedSnapshot) {
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
