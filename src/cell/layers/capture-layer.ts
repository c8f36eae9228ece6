import { join } from "node:path";
import { layerBytesOf } from "../../api/wire/cell-api.ts";
import { RametError } from "../../base/errors.ts";
import { within } from "../../base/within.ts";
import { layerFile } from "../../store/manifest.ts";
import type { Clock } from "../../base/clock.ts";
import type { GuestControl } from "../client/guest-control.ts";
import { hasOwnTmp } from "../sandbox/oci-spec.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { CellSetting } from "../setting/cell-setting.ts";
import { rootList } from "./root-list.ts";

export interface LayerSubject {
  sandbox: Pick<Sandbox, "writtenBytes" | "rootPath">;
  guest: Pick<GuestControl, "changes" | "unlisted">;
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
 * @throws RametError `QuotaExceeded` above `maxBytes`, `CheckpointTooLarge` above what a layer may have at most, `Timeout`, `Internal` with the guest's reason
 */
export async function captureLayer(
  { sandbox, guest, setting, clock }: LayerSubject,
  imagePath: string,
  maxBytes = Infinity,
): Promise<void> {
  const milliseconds = leastMilliseconds + (await sandbox.writtenBytes()) / leastBytesPerMillisecond;
  const withTmp = hasOwnTmp(setting.container);
  const mostBytes = layerBytesOf(setting.container) + overheadBytes;
  await within({ clock, milliseconds, what: "Writing a layer" }, async (signal) => {
    const base = await rootList(sandbox.rootPath, (list) => guest.unlisted(list, { withTmp, signal }));
    const limits = { withTmp, maxBytes: Math.min(maxBytes, mostBytes), signal };
    return guest.changes(base, join(imagePath, layerFile), limits);
  }).catch((thrown: unknown) => {
    const error = RametError.from(thrown);
    throw error.code === "QuotaExceeded" && mostBytes < maxBytes ? aboveLayer(error) : error;
  });
}

/** No quota of the namespace is exceeded, so raising one would not help. */
function aboveLayer(cause: RametError): RametError {
  return new RametError("CheckpointTooLarge", cause.message, {
    hint: "Delete large or sparse files in the sandbox, or raise the container's resources.limits.ephemeral-storage",
    cause,
  });
}
