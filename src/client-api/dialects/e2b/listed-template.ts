import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import { clientBuildsOf } from "../../../api/snapshot/client-builds.ts";
import { findCondition } from "../../../kube/conditions.ts";
import { buildState } from "../../service/template-build-state.ts";
import type { E2b } from "./call.ts";
import { sizesOf } from "./sandbox-view.ts";
import { buildIdOf } from "./template-view.ts";

/** A template in a list: a named snapshot, whoever declares it. */
export function templateView({ service, envdVersion }: Pick<E2b, "service" | "envdVersion">, snapshot: NamedSnapshot) {
  const { metadata, spec, status } = snapshot;
  const { namespace, name, creationTimestamp } = metadata;
  const { template } = spec.from;
  const build = clientBuildsOf(snapshot).at(-1);
  const sizes = sizesOf(template && service.known.template(`${namespace}/${template.name}`)?.spec.template);
  return {
    templateID: name,
    buildID: build?.id ?? buildIdOf(snapshot, status?.version ?? 0),
    buildStatus: build ? buildState(snapshot, build, service.clock.now()).status : statusOf(snapshot),
    buildCount: status?.latestVersion ?? 0,
    names: [`${namespace}/${name}`],
    aliases: [name],
    public: false,
    ...sizes,
    envdVersion,
    createdAt: creationTimestamp,
    updatedAt: status?.versions?.at(-1)?.createdAt ?? creationTimestamp,
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
  };
}

function statusOf({ status }: NamedSnapshot): "building" | "ready" | "error" {
  if (status?.version !== undefined) return "ready";
  return findCondition(status?.conditions, "Building")?.status === "False" ? "error" : "building";
}
