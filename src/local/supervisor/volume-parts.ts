import { mkdir } from "node:fs/promises";
import { socketAccepts } from "../../base/socket-accepts.ts";
import { type Child, startChild } from "../control-plane/child.ts";
import { localNodeName } from "../node/node-object.ts";
import { acquirePinned } from "../tools/acquire-tools.ts";
import {
  localDriverSocket,
  pinnedSnapshotProgram,
  snapshotProgramArguments,
  type SnapshotProgramName,
  snapshotProgramNames,
} from "../volumes/snapshot-programs.ts";
import { Part } from "./part.ts";
import { type ClusterPartsOptions, startRamet, untilReady } from "./parts.ts";

/** The processes that volumes need. `runVolumeParts` starts them. */
export interface VolumeParts {
  driver: Part;
  /** The programs of external-snapshotter. */
  snapshots: Part[];
}

export function volumeParts(options: ClusterPartsOptions): VolumeParts {
  const { setting, clock, onChange } = options;
  const shared = { clock, onChange, longestPauseMilliseconds: setting.longestRestartPauseMilliseconds };
  return {
    driver: new Part({
      ...shared,
      name: "csi-driver",
      graceMilliseconds: 5_000,
      start: (signal) => startDriver(options, signal),
    }),
    snapshots: snapshotProgramNames.map(
      (name) =>
        new Part({
          ...shared,
          name,
          graceMilliseconds: 1_000,
          start: (signal) => startSnapshotProgram(name, options, signal),
        }),
    ),
  };
}

async function startDriver(options: ClusterPartsOptions, signal: AbortSignal): Promise<Child> {
  const { volumes } = options.directory;
  await mkdir(volumes, { recursive: true, mode: 0o700 });
  const endpoint = ["--endpoint", `unix://${localDriverSocket}`];
  const args = ["csi-driver", ...endpoint, "--directory", volumes, "--node-id", localNodeName];
  const child = await startRamet(options, "csi-driver", args);
  await untilReady(child, "the CSI driver", options, { signal, ready: () => socketAccepts(localDriverSocket) });
  return child;
}

/** The first start on a machine builds the program, which takes minutes. */
async function startSnapshotProgram(
  name: SnapshotProgramName,
  { directory, clock }: ClusterPartsOptions,
  signal: AbortSignal,
): Promise<Child> {
  const { [name]: program } = await acquirePinned(pinnedSnapshotProgram, { names: [name], clock, signal });
  return startChild({
    program,
    args: snapshotProgramArguments(name, { kubeconfig: directory.kubeconfig, socket: localDriverSocket }),
    cwd: directory.path,
    logPath: directory.log(name),
    clock,
  });
}
