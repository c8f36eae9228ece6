import { systemClock } from "../../base/clock.ts";
import type { ClusterFolder } from "../cluster-directory.ts";
import { readSetting } from "../cluster-setting.ts";
import { superviseCluster } from "./supervise.ts";

/** The process `ramet local supervise` that `ramet local up` leaves behind. */
export async function runSupervisorProcess(folder: ClusterFolder, signal: AbortSignal): Promise<void> {
  const setting = await readSetting(folder.setting);
  await superviseCluster({ folder, setting, clock: systemClock }, signal);
}
