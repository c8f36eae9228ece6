import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { captureTimes, isCloneable } from "../../api/state/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { describeState } from "../../kube/conditions.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { describeBuild } from "../../operations/await-build.ts";
import type { AwaitedObjects, Followed } from "../../operations/objects.ts";
import type { Io } from "../io.ts";
import { type OutputFormat, size } from "../output/render.ts";
import { type FollowedRequest, followRequest } from "../wait/follow.ts";
import type { Cluster } from "./cluster.ts";

/**
 * The objects of a command, followed by watches, with progress lines.
 * @param shown.areNew whether the command creates the followed objects, so that its user may not need them any more. Default: false
 * @param shown.output the output format of the command: progress is no part of a document. Default: a document
 */
export function clusterObjects(
  io: Io,
  cluster: Cluster,
  { areNew: isNew = false, output = "json" }: { areNew?: boolean; output?: OutputFormat } = {},
): AwaitedObjects {
  const shown = { isNew, reportsSlow: output === "table" || output === "name" };
  return {
    sandboxes: followed(io, cluster, cluster.sandboxes, { noun: "sandbox", ...shown }),
    checkpoints: followed(io, cluster, cluster.checkpoints, { noun: "checkpoint", ...shown, describeProgress }),
    snapshots: followed(io, cluster, cluster.snapshots, {
      noun: "snapshot",
      ...shown,
      describeProgress: describeBuild,
    }),
    sets: followed(io, cluster, cluster.sets, { noun: "set", ...shown }),
  };
}

function followed<T extends KubeObject>(
  io: Io,
  cluster: Cluster,
  resource: ResourceClient<T>,
  shown: Pick<FollowedRequest<T>, "noun" | "isNew" | "describeProgress" | "reportsSlow">,
): Followed<T> {
  return {
    create: (manifest) => cluster.create(resource, manifest),
    patch: ({ metadata }, change) =>
      resource.mergePatch(
        metadata,
        { ...change, metadata: { ...change.metadata, uid: metadata.uid } },
        { signal: io.signal },
      ),
    remove: ({ metadata }) => resource.delete(metadata, { uid: metadata.uid, signal: io.signal }),
    follow: async (from, { until, what, signal: _, ...waiting }) => {
      const started = io.clock.monotonicMilliseconds();
      const settle = (object: T | undefined) => until(object, io.clock.monotonicMilliseconds() - started);
      let result: ReturnType<typeof until>;
      const isOver = (object: T) => (result = settle(object)) !== undefined;
      const last = await followRequest(io, { resource, from, what, ...waiting, ...shown, isOver });
      result ??= settle(last);
      if (result !== undefined) return result;
      throw new RametError("Conflict", `${what} was deleted during the wait`);
    },
  };
}

function describeProgress(checkpoint: Checkpoint | undefined): string {
  const state = describeState(checkpoint);
  const sizeBytes = checkpoint?.status?.ramet?.sizeBytes;
  if (checkpoint === undefined || !isCloneable(checkpoint) || sizeBytes === undefined) return state;
  return `${state} (${[size(sizeBytes), ...captureTimes(checkpoint)].join(", ")})`;
}
