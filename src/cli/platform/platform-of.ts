import { allVolumes } from "../../api/kinds/sandbox-parts.ts";
import { hasVolumes, type Sandbox } from "../../api/kinds/sandbox.ts";
import { restoreFromAnnotations } from "../../api/names/labels.ts";
import type { Programs } from "../../api/schema/metadata.ts";
import { checkpointIdOf } from "../../api/state/checkpoint.ts";
import { owningProject } from "../../kube/other-controllers.ts";
import { inherited } from "../../operations/fork.ts";
import { requestRollback, untilRolledBack } from "../../operations/roll-back.ts";
import { checkpointReference, sandboxSource } from "./source.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import type { Io } from "../io.ts";
import { volumesAnnotation } from "../options.ts";
import { kruisePlatform } from "./kruise-platform.ts";
import type { Platform } from "./platform.ts";

/** The platform of a cluster: Ramet's own controllers, or those next to which Ramet is installed. */
export async function platformOf(io: Io, cluster: Cluster): Promise<Platform> {
  const project = await owningProject(cluster.client, io.signal);
  return project === undefined ? ownPlatform(io, cluster) : kruisePlatform(io, cluster);
}

/** Ramet's controllers resolve named snapshots, and add the template of a clone. */
function ownPlatform(io: Io, cluster: Cluster): Platform {
  const [restoreFrom] = restoreFromAnnotations;
  return {
    newSandbox: async (request) => ({
      annotations: request.from === undefined ? {} : { [restoreFrom]: request.from, ...volumesAnnotation(request) },
      spec: {
        ...(await sandboxSource(cluster, request)),
        ...(request.paused === true && { paused: true }),
      },
    }),
    captureOf: (sandboxName) => ({ sandboxName }),
    idOf: ({ metadata }) => checkpointIdOf(metadata),
    keep: () => Promise.resolve(),
    planFork: (source, request) =>
      Promise.resolve({
        // A fork continues where its source is, so that volumes are captured at the same moment, unless the clones get others.
        capture: {
          sandboxName: source.metadata.name,
          ...(hasVolumes(source) && request.volumes === undefined && { volumes: [allVolumes], consistency: "atomic" }),
        },
        isEarly: true,
        clone: (checkpointId) => ({
          annotations: { ...inherited(source), ...volumesAnnotation(request), [restoreFrom]: checkpointId },
          spec: request.paused === true ? { paused: true } : {},
        }),
      }),
    rollBack: async (sandbox, { to: text, wait, timeoutMilliseconds, signal, ...flags }) => {
      const to = await checkpointReference(cluster, text);
      const objects = clusterObjects(io, cluster);
      const requested = await requestRollback(objects, sandbox, { to, others: volumesAnnotation(flags) }, signal);
      const settled = wait
        ? await untilRolledBack(objects, requested, { timeoutMilliseconds, signal })
        : { object: requested };
      const state = wait ? "rolled back" : "is being rolled back";
      const sentence = `sandbox ${sandbox.metadata.name} ${state} to ${to}`;
      const lines = wait && "object" in settled ? replacedPrograms(sandbox, settled.object) : [];
      return { settled, sentence: [sentence, ...lines].join("\n") };
    },
    expectRestoreOnClaim: () => undefined,
    expectImport: () => undefined,
  };
}

/** Describes what a rollback has ended, and what runs then. A sandbox that stays paused has no programs. */
function replacedPrograms(before: Sandbox, { status }: Sandbox): string[] {
  if (status?.phase !== "Running") return [];
  if (status.podInfo?.podUID !== before.status?.podInfo?.podUID) return ["ended: all processes, with the Pod"];
  const { ended, running } = status.ramet?.rollback?.programs ?? {};
  return [`ended: ${described(ended)}`, `running: ${described(running)}`];
}

function described(programs: Programs | undefined): string {
  if (programs === undefined) return "not known, because the sandbox has not listed its programs";
  const { processes, names, others } = programs;
  if (processes === 0) return "no processes";
  const shown = [names.join(", "), ...(others === undefined ? [] : [`${others} more`])].join(" and ");
  return `${processes === 1 ? "1 process" : `${processes} processes`} (${shown})`;
}
