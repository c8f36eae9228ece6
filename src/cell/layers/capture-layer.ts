import { join } from "node:path";
import { layerBytesOf } from "../../api/wire/cell-api.ts";
import { within } from "../../base/within.ts";
import { layerFile } from "../../store/manifest.ts";
import type { Clock } from "../../base/clock.ts";
import type { GuestControl } from "../client/guest-control.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import { rootList } from "./root-list.ts";

export interface LayerSubject {
  sandbox: Pick<Sandbox, "writtenBytes" | "rootPath">;
  guest: Pick<GuestControl, "changes">;
  setting: Pick<CellSetting, "container">;
  clock: Clock;
}

/** The slowest pace at which the guest writes a layer, and the time for the list of a large image. */
const leastBytesPerMillisecond = 10 * 1024;
const leastMilliseconds = 300_000;
/** The headers of a layer, and its files on /tmp. The holes of sparse files count, so that no sandbox fills the disk of a store. */
const overheadBytes = 1024 ** 3;

/**
 * Writes a layer with what the sandbox has changed since it started into `imagePath`. Programs keep running: what they change
 * meanwhile has its old or its new content.
 * @throws RametError `QuotaExceeded`, `Timeout`, `Internal` with the guest's reason
 */
export async function captureLayer(
  { sandbox, guest, setting, clock }: LayerSubject,
  imagePath: string,
  maxBytes = Infinity,
): Promise<void> {
  const milliseconds = leastMilliseconds + (await sandbox.writtenBytes()) / leastBytesPerMillisecond;
  const withTmp = !setting.container.mounts.some(({ target }) => target === "/tmp");
  await within({ clock, milliseconds, what: "Writing a layer" }, (signal) =>
    guest.changes(rootList(sandbox.rootPath), join(imagePath, layerFile), {
      withTmp,
      maxBytes: Math.min(maxBytes, layerBytesOf(setting.container) + overheadBytes),
      signal,
    }),
  );
}
